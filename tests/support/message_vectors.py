"""Messages that Kafka's own classes wrote, and what they say about the fields.

``messages.jsonl.xz`` has a line for each message, ``fields.jsonl.xz`` one for each field of each
struct and ``headers.jsonl.xz`` one for each API and version; tests/interop/record_messages.py
makes them.
"""

import json
import lzma
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

MESSAGE_VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "messages"


@dataclass(frozen=True, slots=True)
class MessageVector:
    """One message in one version: its JSON (see kafka_json) and its bytes."""

    message: str
    version: int
    case: str
    releases: list[str]  # of Kafka: all of them wrote the same
    shown: dict[str, Any]
    encoded: str  # in hex


@dataclass(frozen=True, slots=True)
class FieldVector:
    """How Kafka treats one field.  A value that a version lacks is dropped or refused."""

    message: str
    path: str  # names of attributes, joined by dots
    default: Any  # as JSON
    nullable_in: list[int]
    dropped_in: list[int]
    refused_in: list[int]


@dataclass(frozen=True, slots=True)
class HeaderVector:
    """The versions of the headers that Kafka puts before a request and its response."""

    key: int
    version: int
    request_header: int
    response_header: int


Vector = TypeVar("Vector", MessageVector, FieldVector, HeaderVector)
FILES = {MessageVector: "messages", FieldVector: "fields", HeaderVector: "headers"}


def save(kind: type[Vector], vectors: Iterable[Vector], directory: Path = MESSAGE_VECTORS) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(asdict(vector), ensure_ascii=False) + "\n" for vector in vectors)
    _file(kind, directory).write_bytes(lzma.compress("".join(lines).encode(), preset=9))


@cache
def load(kind: type[Vector]) -> tuple[Vector, ...]:
    text = lzma.decompress(_file(kind, MESSAGE_VECTORS).read_bytes()).decode()
    # Not splitlines: JSON leaves the Unicode line separators in strings as they are.
    return tuple(kind(**json.loads(line)) for line in text.rstrip("\n").split("\n"))


def _file(kind: type[Vector], directory: Path) -> Path:
    return directory / f"{FILES[kind]}.jsonl.xz"
