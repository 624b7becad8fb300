"""What the records of both internal topics have in common, as cells of a row.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from odradek.protocol.errors import DecodeError
from odradek.protocol.internal.coordinator_record import CoordinatorRecordType, read_version_prefix
from odradek.protocol.schema import Message

#: By the names of columns; what is not there is null.
RecordCells = dict[str, Any]

_MILLISECONDS_MAX = (2**63 - 1) // 1000


class ParsedKey(NamedTuple):
    """What a key says, and the class of the value if that has something to say, too."""

    cells: RecordCells
    value_type: type[Message] | None


def find_record_type(
    key: bytes, record_types: Mapping[int, CoordinatorRecordType]
) -> CoordinatorRecordType | None:
    """None for a kind that is not known; raises DecodeError where no kind is told."""
    version = read_version_prefix(key)
    if version < 0:
        raise DecodeError(f"version {version} of the key: must not be negative")
    return record_types.get(version)


def key_cells(record_type: CoordinatorRecordType, **fields: Any) -> RecordCells:
    """With the kind's name, ``OffsetCommit``, as Kafka calls it."""
    return {"recordType": record_type.key.__name__.removesuffix("Key"), **fields}


def unknown_key(key: bytes) -> ParsedKey:
    """Of a kind that only a newer broker knows."""
    return ParsedKey({"recordType": str(read_version_prefix(key))}, value_type=None)


def to_microseconds(milliseconds: int) -> int | None:
    """None for a time that was not given, or that microseconds have no room for."""
    return milliseconds * 1000 if 0 <= milliseconds <= _MILLISECONDS_MAX else None
