"""``odradek spark``: run one of the Spark jobs, without knowing spark-submit.

    odradek spark                       which jobs there are
    odradek spark JOB ...               run one; all else is its own
    odradek spark py-files FILE.zip     the code that a cluster's workers need

Spark runs inside of this command: on this machine, unless ``--master`` names a cluster.
"""

from __future__ import annotations

import argparse
import ast
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from odradek.broker.cli.failed import CommandFailed

INSTALL = "spark needs pyspark, numpy and pyarrow: pip install 'odradek[spark]'"
HELP = ("-h", "--help")
PY_FILES = "py-files"
DONE = 0


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    # With no sign that begins an option, all of them are left to the job's own parser.
    parser = commands.add_parser(
        "spark",
        help="run a Spark job over segment files; alone, it lists them",
        add_help=False,
        prefix_chars="\0",
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    name, *rest = arguments.arguments or HELP[:1]
    if name in HELP:
        _list()
        return DONE
    if name == PY_FILES:
        return _write_py_files(rest)
    job = name.replace("-", "_")
    if job not in jobs():
        known = ", ".join([*map(_shown, jobs()), PY_FILES])
        raise CommandFailed(f"spark: no job is called {name}; there are {known}")
    if not all(map(find_spec, ("pyspark", "numpy", "pyarrow"))):
        raise CommandFailed(INSTALL)
    status: int = import_module(f"odradek.spark_jobs.{job}").main(rest)
    return status


def jobs() -> dict[str, str]:
    """Modules that can be run, and what they say of themselves in one line."""
    found = {}
    for each in sorted(files("odradek.spark_jobs").iterdir(), key=lambda each: each.name):
        if each.name.endswith(".py") and each.name != "__init__.py":
            told = ast.get_docstring(ast.parse(each.read_text("utf-8"))) or ""
            found[each.name.removesuffix(".py")] = told.split("\n", 1)[0]
    return found


def _list() -> None:
    lines = {**{_shown(job): told for job, told in jobs().items()}}
    lines[PY_FILES] = "Write the zip that brings the code to the workers of a cluster."
    width = max(map(len, lines))
    print("usage: odradek spark JOB ...\n\nJobs; `odradek spark JOB --help` tells more:\n")
    for name, told in lines.items():
        print(f"  {name:{width}}  {told}")


def _shown(job: str) -> str:
    return job.replace("_", "-")


def _write_py_files(rest: list[str]) -> int:
    from odradek.spark_jobs.source.py_files import write_py_files

    if len(rest) != 1 or rest[0] in HELP:
        raise CommandFailed(f"spark: name the file: odradek spark {PY_FILES} odradek.zip")
    try:
        count = write_py_files(Path(rest[0]))
    except OSError as failure:
        raise CommandFailed(str(failure)) from failure
    print(f"{rest[0]}: {count} files; spark-submit --py-files {rest[0]} brings them to the workers")
    return DONE
