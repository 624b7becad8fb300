"""The entries of a segment's indexes as a dump shows them: with absolute offsets, none trusted.

Each knows which offsets it is about, and what is wrong with it if another one precedes it.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any, NamedTuple, Self

from odradek.storage import offset_index, time_index, transaction_index
from odradek.storage.log_segment import SEGMENT_BYTES_MAX
from odradek.storage.paths import Content
from odradek.storage.time_index import NO_TIMESTAMP


class Offsets(NamedTuple):
    first: int
    last: int


class IndexEntry(NamedTuple):
    offset: int
    log_position: int

    @classmethod
    def read(cls, stored: tuple[Any, ...], *, base_offset: int) -> Self:
        relative_offset, position = stored
        return cls(base_offset + relative_offset, position)

    @property
    def offsets(self) -> Offsets:
        return Offsets(self.offset, self.offset)

    def why_not_after(self, before: Any) -> str | None:
        if self.log_position > SEGMENT_BYTES_MAX:
            return f"position {self.log_position} is in no segment"
        if before is not None and self.offset <= before.offset:
            return f"offset {self.offset} after {before.offset}"
        if before is not None and self.log_position <= before.log_position:
            return f"position {self.log_position} after {before.log_position}"
        return None


class TimeIndexEntry(NamedTuple):
    timestamp: int
    offset: int

    @classmethod
    def read(cls, stored: tuple[Any, ...], *, base_offset: int) -> Self:
        timestamp, relative_offset = stored
        return cls(timestamp, base_offset + relative_offset)

    @property
    def offsets(self) -> Offsets:
        return Offsets(self.offset, self.offset)

    def why_not_after(self, before: Any) -> str | None:
        if before is None:
            return f"timestamp {self.timestamp}" if self.timestamp <= NO_TIMESTAMP else None
        if self.timestamp <= before.timestamp:
            return f"timestamp {self.timestamp} after {before.timestamp}"
        if self.offset < before.offset:
            return f"offset {self.offset} after {before.offset}"
        return None


class TransactionIndexEntry(NamedTuple):
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @classmethod
    def read(cls, stored: tuple[Any, ...], *, base_offset: int) -> Self:
        """Its offsets are absolute as they are stored."""
        return cls(*stored)

    @property
    def offsets(self) -> Offsets:
        return Offsets(self.first_offset, self.last_offset)

    def why_not_after(self, before: Any) -> str | None:
        if self.version != transaction_index.VERSION:
            return f"version {self.version}"
        if not 0 <= self.first_offset <= self.last_offset:
            return f"offsets from {self.first_offset} to {self.last_offset}"
        if before is not None and self.last_offset <= before.last_offset:
            return f"last offset {self.last_offset} after {before.last_offset}"
        return None


AnyEntry = IndexEntry | TimeIndexEntry | TransactionIndexEntry


class Form(NamedTuple):
    """How the entries of an index are stored, and what a dump calls it and them."""

    layout: Struct
    entry: type[AnyEntry]
    content: str
    kind: str


FORMS: Mapping[Content, Form] = {
    Content.OFFSET_INDEX: Form(offset_index.ENTRY, IndexEntry, "offset index", "index_entry"),
    Content.TIME_INDEX: Form(time_index.ENTRY, TimeIndexEntry, "time index", "time_index_entry"),
    Content.TRANSACTION_INDEX: Form(
        transaction_index.ENTRY, TransactionIndexEntry, "transaction index", "aborted_transaction"
    ),
}
