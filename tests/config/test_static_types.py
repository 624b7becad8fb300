"""What a type checker makes of a settings table: right uses pass, wrong ones are found."""

import re
from pathlib import Path

import pytest

mypy = pytest.importorskip("mypy.api", reason="mypy comes with the dev extra only")

USES = """
from odradek.config.definition import (
    Layer, Update, boolean, choice, integer, long, number, password, text, text_list, value_of
)
from odradek.config.kinds import Password
from odradek.config.settings import Settings


class Right(Settings):
    must: str = text("must", doc="Given.")
    threads: int = integer("threads", default=1, at_least=1, update=Update.CLUSTER, doc="Some.")
    hours: int | None = integer("hours", default=None, doc="Age.")
    age_ms: int = long("age.ms", default=value_of("hours", times=3_600_000), doc="Age.")
    ratio: float = number("ratio", default=1, at_most=1, doc="Part.")
    eager: bool = boolean("eager", default=False, doc="Now.")
    mode: str = choice("mode", ["a", "b"], default="a", doc="How.")
    names: tuple[str, ...] = text_list("names", default=("a", "b"), doc="Who.")
    secret: Password | None = password("secret", default=None, doc="Hush.")


class Topic(Settings, update=Update.TOPIC):
    size: int = integer("size", default=1, synonym="threads", doc="Size.")


class Wrong(Settings):
    a: int = integer("a", default="1", doc="Text.")  # refused
    b: str = integer("b", default=1, doc="A number.")  # refused
    c: int = integer("c", default=None, doc="Nothing.")  # refused
    d: int = integer("d", default=1, at_most="9", doc="A bound of text.")  # refused
    e: int = integer("e", default=1)  # refused
    f: int = integer("f", default=1, atleast=1, doc="A slip.")  # refused
    g: bool = boolean("g", default="true", doc="Text.")  # refused
    h: str = password("h", default=None, doc="A secret is no text.")  # refused
    i: list[str] = text_list("i", default=["a"], doc="It could be changed.")  # refused
    j: str = text("j", default="", check=lambda value: value + 1, doc="A sum.")  # refused


right = Right.read({Layer.FILE: {"must": "x"}})
threads: int = right.threads
hours: int | None = right.hours
age_ms: int = right.age_ms
names: tuple[str, ...] = right.names
changed: Right = right.with_changes({"threads": "2", "mode": None}, layer=Layer.BROKER)
given = Right(must="x", threads=3)
size: int = Topic().size

wide: str = right.threads  # refused
hours + 1  # refused
right.thread  # refused
right.threads = 2  # refused
Right(threads=3)  # refused
Right(must="x", threads="3")  # refused
Right(must="x", thread=3)  # refused
Right("x")  # refused
"""


def test_mypy_accepts_correct_uses_and_reports_wrong_ones(tmp_path, monkeypatch):
    monkeypatch.setenv("MYPYPATH", str(Path(__file__).parents[2]))
    uses = tmp_path / "uses.py"
    uses.write_text(USES)
    output, _, _ = mypy.run(["--strict", "--config-file=", f"--cache-dir={tmp_path}", str(uses)])
    reported = {int(line) for line in re.findall(r"uses\.py:(\d+): error", output)}
    wrong = {n for n, line in enumerate(USES.splitlines(), start=1) if line.endswith("# refused")}
    assert reported == wrong, output
