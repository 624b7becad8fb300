"""What the records of both internal topics have in common: keys and cells of a row.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from odradek.protocol.errors import DecodeError
from odradek.protocol.internal.coordinator_record import CoordinatorRecordType, read_version_prefix
from odradek.protocol.schema import Message

#: By column name; a missing cell is null.
RecordCells = dict[str, Any]

_MILLISECONDS_MAX = (2**63 - 1) // 1000


class ParsedKey(NamedTuple):
    """The cells of a key, and the class of the value if the value is decoded as well."""

    cells: RecordCells
    value_type: type[Message] | None


def find_record_type(
    key: bytes, record_types: Mapping[int, CoordinatorRecordType]
) -> CoordinatorRecordType | None:
    """Return None for an unknown type; raise DecodeError if the key has no valid version."""
    version = read_version_prefix(key)
    if version < 0:
        raise DecodeError(f"version {version} of the key: must not be negative")
    return record_types.get(version)


def key_cells(record_type: CoordinatorRecordType, **fields: Any) -> RecordCells:
    """Return the cells with Kafka's name of the record type, such as ``OffsetCommit``."""
    return {"recordType": record_type.key.__name__.removesuffix("Key"), **fields}


def unknown_key(key: bytes) -> ParsedKey:
    """Return the cells of a record type that only newer brokers know."""
    return ParsedKey({"recordType": str(read_version_prefix(key))}, value_type=None)


def to_microseconds(milliseconds: int) -> int | None:
    """Return None for a timestamp that is not set or overflows as microseconds."""
    return milliseconds * 1000 if 0 <= milliseconds <= _MILLISECONDS_MAX else None
