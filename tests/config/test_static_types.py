"""A type checker accepts correct uses of a settings table and reports wrong ones."""

import re
from pathlib import Path

import pytest

mypy = pytest.importorskip("mypy.api", reason="mypy comes with the dev extra only")

USES = """
from odradek.config.definition import (
    ConfigSource, UpdateMode, boolean, choice, integer, long, number, password, text, text_list,
    value_of
)
from odradek.config.types import Password
from odradek.config.settings import Settings


class Right(Settings):
    must: str = text("must", doc="Given.")
    threads: int = integer("threads", default=1, at_least=1, update=UpdateMode.CLUSTER, doc="Some.")
    hours: int | None = integer("hours", default=None, doc="Age.")
    age_ms: int = long("age.ms", default=value_of("hours", multiplier=3_600_000), doc="Age.")
    ratio: float = number("ratio", default=1, at_most=1, doc="Part.")
    eager: bool = boolean("eager", default=False, doc="Now.")
    mode: str = choice("mode", ["a", "b"], default="a", doc="How.")
    names: tuple[str, ...] = text_list("names", default=("a", "b"), doc="Who.")
    secret: Password | None = password("secret", default=None, doc="Hush.")


class Topic(Settings, update=UpdateMode.TOPIC):
    size: int = integer("size", default=1, synonym="threads", doc="Size.")


class Wrong(Settings):
    a: int = integer("a", default="1", doc="Text.")  # rejected
    b: str = integer("b", default=1, doc="A number.")  # rejected
    c: int = integer("c", default=None, doc="Nothing.")  # rejected
    d: int = integer("d", default=1, at_most="9", doc="A bound of text.")  # rejected
    e: int = integer("e", default=1)  # rejected
    f: int = integer("f", default=1, atleast=1, doc="A slip.")  # rejected
    g: bool = boolean("g", default="true", doc="Text.")  # rejected
    h: str = password("h", default=None, doc="A secret is no text.")  # rejected
    i: list[str] = text_list("i", default=["a"], doc="It could be changed.")  # rejected
    j: str = text("j", default="", check=lambda value: value + 1, doc="A sum.")  # rejected


right = Right.read({ConfigSource.FILE: {"must": "x"}})
threads: int = right.threads
hours: int | None = right.hours
age_ms: int = right.age_ms
names: tuple[str, ...] = right.names
changed: Right = right.with_changes({"threads": "2", "mode": None}, source=ConfigSource.BROKER)
given = Right(must="x", threads=3)
size: int = Topic().size

wide: str = right.threads  # rejected
hours + 1  # rejected
right.thread  # rejected
right.threads = 2  # rejected
Right(threads=3)  # rejected
Right(must="x", threads="3")  # rejected
Right(must="x", thread=3)  # rejected
Right("x")  # rejected
"""


def test_mypy_accepts_correct_uses_and_reports_wrong_ones(tmp_path, monkeypatch):
    monkeypatch.setenv("MYPYPATH", str(Path(__file__).parents[2]))
    uses = tmp_path / "uses.py"
    uses.write_text(USES)
    output, _, _ = mypy.run(["--strict", "--config-file=", f"--cache-dir={tmp_path}", str(uses)])
    reported = {int(line) for line in re.findall(r"uses\.py:(\d+): error", output)}
    wrong = {n for n, line in enumerate(USES.splitlines(), start=1) if line.endswith("# rejected")}
    assert reported == wrong, output
