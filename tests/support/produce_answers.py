"""What Apache Kafka answered to record sets, and what it wrote of them into the log.

One file, a line for each set, written by tests/interop/record_validation.py.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

ANSWERS = Path(__file__).resolve().parents[1] / "vectors" / "validation.json"


@dataclass(frozen=True, slots=True)
class ProduceAnswer:
    """A set sent to a new topic with these configs in a request of this version."""

    name: str
    version: int
    topic: Mapping[str, str]
    sent: bytes
    error_code: int
    bad_records: tuple[int, ...]  # the places in the batch that the answer names
    append_time_ms: int
    stored: bytes  # all that the partition's segment holds afterwards
    now_ms: int

    def to_json(self) -> str:
        return json.dumps(
            {
                "name": self.name,
                "version": self.version,
                "topic": dict(self.topic),
                "sent": b64encode(self.sent).decode(),
                "error_code": self.error_code,
                "bad_records": self.bad_records,
                "append_time_ms": self.append_time_ms,
                "stored": b64encode(self.stored).decode(),
                "now_ms": self.now_ms,
            }
        )

    @classmethod
    def from_json(cls, line: str) -> Self:
        told = json.loads(line)
        told["sent"] = b64decode(told["sent"])
        told["stored"] = b64decode(told["stored"])
        told["bad_records"] = tuple(told["bad_records"])
        return cls(**told)


def save_answers(answers: Iterable[ProduceAnswer], path: Path = ANSWERS) -> None:
    path.write_text("[\n" + ",\n".join(answer.to_json() for answer in answers) + "\n]\n")


def saved_answers(path: Path = ANSWERS) -> list[ProduceAnswer]:
    lines = path.read_text().splitlines()[1:-1]
    return [ProduceAnswer.from_json(line.rstrip(",")) for line in lines]
