"""What the records of both internal topics have in common, as cells of a row.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from odradek.protocol.errors import DecodeError
from odradek.protocol.internal.log_record import Kind, part_version
from odradek.protocol.schema import Message

#: By the names of columns; what is not there is null.
Cells = dict[str, Any]

_MILLISECONDS_MAX = (2**63 - 1) // 1000


class ReadKey(NamedTuple):
    """What a key says, and the class of the value if that has something to say, too."""

    cells: Cells
    value: type[Message] | None


def kind_of(key: bytes, kinds: Mapping[int, Kind]) -> Kind | None:
    """None for a kind that is not known; raises DecodeError where no kind is told."""
    number = part_version(key)
    if number < 0:
        raise DecodeError(f"a key of version {number}")
    return kinds.get(number)


def named(kind: Kind, **told: Any) -> Cells:
    """With the kind's name, ``OffsetCommit``, as Kafka calls it."""
    return {"recordType": kind.key.__name__.removesuffix("Key"), **told}


def unknown(key: bytes) -> ReadKey:
    """Of a kind that only a newer broker knows."""
    return ReadKey({"recordType": str(part_version(key))}, value=None)


def microseconds(milliseconds: int) -> int | None:
    """None for a time that was not given, or that microseconds have no room for."""
    return milliseconds * 1000 if 0 <= milliseconds <= _MILLISECONDS_MAX else None
