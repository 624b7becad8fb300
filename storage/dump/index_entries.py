"""The entries of a segment's indexes, as a dump shows them: unchecked, with absolute offsets.

Each entry knows its offsets, and reports invalid values and a wrong order after another entry.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any, NamedTuple, Self

from odradek.storage import offset_index, time_index, transaction_index
from odradek.storage.log_segment import SEGMENT_BYTES_MAX
from odradek.storage.paths import LogFileType
from odradek.storage.time_index import NO_TIMESTAMP


class OffsetRange(NamedTuple):
    first: int
    last: int


class IndexEntry(NamedTuple):
    offset: int
    log_position: int

    @classmethod
    def from_stored(cls, raw_entry: tuple[Any, ...], *, base_offset: int) -> Self:
        relative_offset, position = raw_entry
        return cls(base_offset + relative_offset, position)

    @property
    def offsets(self) -> OffsetRange:
        return OffsetRange(self.offset, self.offset)

    def order_error(self, previous: Any) -> str | None:
        if self.log_position > SEGMENT_BYTES_MAX:
            return f"position {self.log_position} exceeds the maximum size of a segment"
        if previous is not None and self.offset <= previous.offset:
            return f"offset {self.offset} after {previous.offset}"
        if previous is not None and self.log_position <= previous.log_position:
            return f"position {self.log_position} after {previous.log_position}"
        return None


class TimeIndexEntry(NamedTuple):
    timestamp: int
    offset: int

    @classmethod
    def from_stored(cls, raw_entry: tuple[Any, ...], *, base_offset: int) -> Self:
        timestamp, relative_offset = raw_entry
        return cls(timestamp, base_offset + relative_offset)

    @property
    def offsets(self) -> OffsetRange:
        return OffsetRange(self.offset, self.offset)

    def order_error(self, previous: Any) -> str | None:
        if previous is None:
            return f"invalid timestamp {self.timestamp}" if self.timestamp <= NO_TIMESTAMP else None
        if self.timestamp <= previous.timestamp:
            return f"timestamp {self.timestamp} after {previous.timestamp}"
        if self.offset < previous.offset:
            return f"offset {self.offset} after {previous.offset}"
        return None


class TransactionIndexEntry(NamedTuple):
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @classmethod
    def from_stored(cls, raw_entry: tuple[Any, ...], *, base_offset: int) -> Self:
        """The stored offsets are absolute already."""
        return cls(*raw_entry)

    @property
    def offsets(self) -> OffsetRange:
        return OffsetRange(self.first_offset, self.last_offset)

    def order_error(self, previous: Any) -> str | None:
        if self.version != transaction_index.VERSION:
            return f"unknown version {self.version}"
        if not 0 <= self.first_offset <= self.last_offset:
            return f"invalid offsets {self.first_offset} to {self.last_offset}"
        if previous is not None and self.last_offset <= previous.last_offset:
            return f"last offset {self.last_offset} after {previous.last_offset}"
        return None


AnyEntry = IndexEntry | TimeIndexEntry | TransactionIndexEntry


class IndexFormat(NamedTuple):
    """The layout of the entries of an index, and its names in a dump."""

    layout: Struct
    entry_type: type[AnyEntry]
    description: str
    item_kind: str


INDEX_FORMATS: Mapping[LogFileType, IndexFormat] = {
    LogFileType.OFFSET_INDEX: IndexFormat(
        offset_index.ENTRY, IndexEntry, "offset index", "index_entry"
    ),
    LogFileType.TIME_INDEX: IndexFormat(
        time_index.ENTRY, TimeIndexEntry, "time index", "time_index_entry"
    ),
    LogFileType.TRANSACTION_INDEX: IndexFormat(
        transaction_index.ENTRY, TransactionIndexEntry, "transaction index", "aborted_transaction"
    ),
}
