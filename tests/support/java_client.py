"""Kafka's own Java client, as a Python object (see tests/interop/java/JavaClient.java)."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.java_program import JavaFailed, JavaProgram

SOURCE = Path(__file__).resolve().parents[1] / "interop" / "java" / "JavaClient.java"

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class SentRecord:
    """A record as a producer is given it."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A record as a consumer reports it; the type is a name of Java's TimestampType."""

    offset: int
    timestamp: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: Headers

    def to_json(self) -> dict[str, Any]:
        return {
            "offset": self.offset,
            "timestamp": self.timestamp,
            "timestamp_type": self.timestamp_type,
            "key": _text(self.key),
            "value": _text(self.value),
            "headers": [[name, _text(value)] for name, value in self.headers],
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        return cls(
            offset=fields["offset"],
            timestamp=fields["timestamp"],
            timestamp_type=fields["timestamp_type"],
            key=_bytes(fields["key"]),
            value=_bytes(fields["value"]),
            headers=tuple((name, _bytes(value)) for name, value in fields["headers"]),
        )


@dataclass(frozen=True, slots=True)
class Round:
    """Batches sent one after the other, as a transaction if ``end`` is "commit" or "abort"."""

    batches: Sequence[Sequence[SentRecord]]
    end: str = ""


class JavaClient:
    def __init__(self, jars: Path, bootstrap: str) -> None:
        self._program = JavaProgram(jars, SOURCE, bootstrap)

    def create_topic(self, topic: str, configs: Mapping[str, str] = {}) -> None:
        """With one partition."""
        self._ask("create", topic, configs)

    def alter_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        """Returns when the change is accepted; the broker applies it a moment later."""
        self._ask("alter", topic, configs)

    def produce(
        self, topic: str, rounds: Sequence[Round], configs: Mapping[str, str] = {}
    ) -> list[int]:
        """The offsets the records got."""
        sent = [
            {
                "end": each.end,
                "batches": [[_sent_json(record) for record in batch] for batch in each.batches],
            }
            for each in rounds
        ]
        offsets: list[int] = self._ask("produce", topic, configs, rounds=sent)["offsets"]
        return offsets

    def consume(self, topic: str, configs: Mapping[str, str] = {}) -> list[SeenRecord]:
        """Everything from the first record to what is the end when it starts."""
        answer = self._ask("consume", topic, configs)
        return [SeenRecord.from_json(fields) for fields in answer["records"]]

    def _ask(self, command: str, topic: str, configs: Mapping[str, str], **more: Any) -> Any:
        line = json.dumps({"command": command, "topic": topic, "configs": dict(configs), **more})
        answer = json.loads(self._program.ask(line))
        if "error" in answer:
            raise JavaFailed(f"{command} {topic}: {answer['error']}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._program.close()


def _sent_json(record: SentRecord) -> dict[str, Any]:
    return {
        "timestamp": record.timestamp,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
