"""Rules about the code itself.  When one fails, change the code or change the rule here.

A rule is a function from a source file to what is wrong with it, line by line.  There are no
exemptions: where a rule is wrong, it is wrong for everyone.
"""

import ast
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PACKAGES = {"broker", "config", "controller", "protocol", "spark_jobs", "storage"}
# The roots, where an unforeseen failure is logged once and the next piece of work begins.
MAY_CATCH_EVERYTHING = frozenset(
    {
        "broker/task_registry.py",
        "broker/fetching/delayed_fetch.py",
        "broker/network/connection.py",
        "broker/network/purgatory.py",
        "broker/replicas/replica_fetcher.py",
        "broker/replicas/alter_partition_manager.py",
        "broker/router.py",
        "broker/worker_process.py",
        "controller/dynamic_config_manager.py",
        "controller/controller_event_manager.py",
    }
)
STARTS_TASKS = "broker/task_registry.py"
LEFT_OVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")


@dataclass(frozen=True)
class Source:
    """A file, parsed once for all rules."""

    path: str
    text: str = field(repr=False)
    nodes: tuple[ast.AST, ...] = field(repr=False)

    @property
    def tree(self) -> ast.Module:
        return self.nodes[0]


def source(path: str, text: str) -> Source:
    return Source(path, text, tuple(ast.walk(ast.parse(text))))


def python_files() -> Iterator[str]:
    """Relative to the root; links are not followed, or odradek/ would show everything twice."""
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = [
            name
            for name in subfolders
            if not name.startswith(".") and name not in {"build", "dist", "__pycache__"}
        ]
        for path in (Path(folder, name) for name in names):
            if path.suffix == ".py" or (path.parent == ROOT / "bin" and runs_python(path)):
                yield path.relative_to(ROOT).as_posix()


def runs_python(path: Path) -> bool:
    with path.open("rb") as file:
        return b"python" in file.readline(100)


def swallowed_exceptions(file: Source) -> Iterator[str]:
    for node in file.nodes:
        if isinstance(node, ast.ExceptHandler):
            if node.type is None:
                yield f"{node.lineno}: a bare except"
            if all(says_nothing(statement) for statement in node.body):
                yield f"{node.lineno}: an exception is swallowed"


def says_nothing(statement: ast.stmt) -> bool:
    constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return constant or isinstance(statement, ast.Pass)


def everything_caught(file: Source) -> Iterator[str]:
    if file.path in MAY_CATCH_EVERYTHING:
        return
    for node in file.nodes:
        if isinstance(node, ast.ExceptHandler) and node.type is not None:
            caught = names_in(node.type)
        elif isinstance(node, ast.Call) and names_in(node.func) & {"suppress"}:
            caught = {name for argument in node.args for name in names_in(argument)}
        else:
            continue
        if caught & {"Exception", "BaseException"}:
            yield f"{node.lineno}: every exception is caught"


def names_in(expression: ast.expr) -> set[str]:
    return {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(expression)
        if isinstance(node, ast.Name | ast.Attribute)
    }


def short_imports(file: Source) -> Iterator[str]:
    for node in file.nodes:
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = ["." * node.level + (node.module or "")]
        else:
            continue
        for module in modules:
            if module.partition(".")[0] in {*PACKAGES, ""}:
                yield f"{node.lineno}: {module} is imported without the name odradek"


def stray_tasks(file: Source) -> Iterator[str]:
    if file.path == STARTS_TASKS:
        return
    starters = {"create_task", "ensure_future"}
    for node in file.nodes:
        if isinstance(node, ast.Attribute) and node.attr in starters:
            # A TaskGroup's method of that name is welcome: it watches its tasks.
            stray = isinstance(node.value, ast.Name) and node.value.id == "asyncio"
        elif isinstance(node, ast.ImportFrom) and node.module == "asyncio":
            stray = any(alias.name in starters for alias in node.names)
        else:
            continue
        if stray:
            yield f"{node.lineno}: a task that nobody watches"


def left_overs(file: Source) -> Iterator[str]:
    for number, line in enumerate(file.text.splitlines(), start=1):
        if LEFT_OVER.search(line):
            yield f"{number}: something is left to do"


def package_code(file: Source) -> Iterator[str]:
    if not file.path.endswith("__init__.py"):
        return
    for statement in file.tree.body[1:]:
        version = file.path == "odradek/__init__.py" and isinstance(statement, ast.Assign)
        if not (version and names_in(statement.targets[0]) == {"__version__"}):
            yield f"{statement.lineno}: a package's __init__ holds its map and nothing else"


MAPPED = re.compile(r"(?<![\w/])(\w+)(?:\.py\b|/(?=\s))")


def wrong_map(file: Source) -> Iterator[str]:
    folder, _, name = file.path.rpartition("/")
    if name != "__init__.py" or folder.partition("/")[0] not in PACKAGES:
        return
    mapped = set(MAPPED.findall(ast.get_docstring(file.tree) or ""))
    modules = {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}
    modules |= {path.stem for path in (ROOT / folder).glob("*.py") if path.name != name}
    if modules - mapped:
        yield f"1: the map lacks {', '.join(sorted(modules - mapped))}"
    if mapped - modules:
        yield f"1: the map names {', '.join(sorted(mapped - modules))}, which is not here"


RULES = [
    swallowed_exceptions,
    everything_caught,
    short_imports,
    stray_tasks,
    left_overs,
    package_code,
    wrong_map,
]
FILES = sorted(python_files())


@cache
def parsed(path: str) -> Source:
    return source(path, (ROOT / path).read_text("utf-8"))


def test_the_code_is_tidy():
    # A test for each file and rule would be half of the suite's tests.
    findings = [
        f"{path}:{finding} ({rule.__name__})"
        for path in FILES
        for rule in RULES
        for finding in rule(parsed(path))
    ]
    assert findings == []


def test_every_package_is_looked_at_and_none_twice():
    assert {path.partition("/")[0] for path in FILES} >= {*PACKAGES, "tests", "odradek"}
    own = [path for path in FILES if path.startswith("odradek/")]
    assert own == ["odradek/__init__.py", "odradek/pytest_plugin.py"]


UNTIDY = {
    swallowed_exceptions: "try: f()\nexcept OSError: pass",
    everything_caught: "try: f()\nexcept (OSError, Exception): raise",
    short_imports: "from storage.log import Log",
    stray_tasks: "import asyncio\nasyncio.create_task(f())",
    left_overs: "# TO" + "DO: more",
    package_code: '"""Map."""\nfrom odradek.storage.unified_log import Log',
    wrong_map: '"""A map that names nothing."""',
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_each_rule_finds_what_it_is_for(rule):
    assert len(list(rule(source("protocol/__init__.py", UNTIDY[rule])))) == 1


def test_a_map_follows_a_module_that_was_renamed():
    outdated = parsed("config/__init__.py").text.replace("types.py", "sorts.py")
    assert list(wrong_map(source("config/__init__.py", outdated))) == [
        "1: the map lacks types",
        "1: the map names sorts, which is not here",
    ]


def test_the_types_are_shipped_with_the_code():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["tool"]["setuptools"]["package-data"]["odradek"] == ["py.typed"]
    assert (ROOT / "odradek" / "py.typed").is_file()


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (swallowed_exceptions, "try: f()\nexcept: raise"),
        (swallowed_exceptions, "try: f()\nexcept OSError: ..."),
        (swallowed_exceptions, "try: f()\nexcept* OSError: 'no matter'"),
        (everything_caught, "try: f()\nexcept BaseException: raise"),
        (everything_caught, "with contextlib.suppress(Exception): f()"),
        (short_imports, "import config"),
        (short_imports, "import os, broker.server"),
        (short_imports, "from . import log"),
        (short_imports, "from ..protocol import schema"),
        (stray_tasks, "from asyncio import gather, ensure_future"),
    ],
)
def test_the_rules_know_other_spellings(rule, text):
    assert len(list(rule(source("storage/unified_log.py", text)))) == 1


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (swallowed_exceptions, "try: f()\nexcept OSError: return"),
        (everything_caught, "try: f()\nexcept OSError as Exc: raise"),
        (short_imports, "from odradek.storage import log\nimport configparser"),
        (stray_tasks, "async with asyncio.TaskGroup() as group: group.create_task(f())"),
    ],
)
def test_the_rules_let_pass_what_is_in_order(rule, text):
    assert not list(rule(source("storage/unified_log.py", text)))
