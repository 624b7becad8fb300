"""What is added to a segment, as far as its indexes are concerned.

Owner: none; immutable, any thread.
"""

from dataclasses import dataclass
from typing import Protocol

from odradek.protocol.records.record_set import AnyBatch


class Addition(Protocol):
    """What an append adds to a segment, besides its bytes."""

    @property
    def size_bytes(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def offset_of_max_timestamp(self) -> int: ...


# Never changed, yet not frozen: that would take five times as long to make.
@dataclass(slots=True)
class Appended:
    """An addition that is nothing else; treat as immutable."""

    size_bytes: int
    last_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int


def addition_of(batch: AnyBatch) -> Appended:
    last_offset = batch.last_offset
    return Appended(batch.size_bytes, last_offset, batch.max_timestamp, last_offset)
