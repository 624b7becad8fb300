"""Programs of tests/interop/java that are asked in JSON, of each release of Kafka.

    with JavaConversation(jars, "LiveAdmin.java", address) as admin:
        admin.ask("createTopics", topic="t", partitions=3)

A test module that imports ``jars`` from here runs once for each release.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.java_program import JavaProgram
from tests.support.kafka_jars import KAFKA_3_9, KAFKA_4_1

SOURCES = Path(__file__).resolve().parents[1] / "interop" / "java"
FIXTURES = {KAFKA_3_9: "kafka_39_jars", KAFKA_4_1: "kafka_41_jars"}


class JavaRefused(Exception):
    """What was asked failed with an exception of the Java class ``kind``."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class JavaConversation:
    def __init__(self, jars: Path, source: str, *arguments: str) -> None:
        self._program = JavaProgram(jars, SOURCES / source, *arguments)

    def ask(self, command: str, **fields: Any) -> Any:
        """Raises JavaRefused."""
        answer = json.loads(self._program.ask(json.dumps({"command": command, **fields})))
        if set(answer) == {"error", "message"}:
            raise JavaRefused(answer["error"], answer["message"])
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._program.close()


@dataclass(frozen=True, slots=True)
class ToolRun:
    """What a tool has written, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class JavaTools:
    """Kafka's command line tools, in one JVM."""

    def __init__(self, jars: Path) -> None:
        self._program = JavaProgram(jars, SOURCES / "Tools.java")

    def run(self, tool: str, *arguments: object, given: str = "") -> ToolRun:
        """``tool`` is a class, without its package; ``given`` is its standard input."""
        asked = {"tool": tool, "arguments": [str(each) for each in arguments], "input": given}
        return ToolRun(**json.loads(self._program.ask(json.dumps(asked))))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._program.close()


@pytest.fixture(scope="module", params=FIXTURES)
def jars(request: pytest.FixtureRequest) -> Path:
    """Of each release in turn."""
    found: Path = request.getfixturevalue(FIXTURES[request.param])
    return found
