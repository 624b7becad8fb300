"""The .timeindex file of a segment maps a timestamp to an offset.  Kafka: TimeIndex.

The file is an array of 12-byte entries, big-endian, timestamps strictly ascending:

    timestamp        int64    largest timestamp up to this point of the segment
    relative offset  uint32   last offset of the batch that has it, minus the segment's base offset

An entry means: no record before that offset has a larger timestamp.  An entry is added together
with an entry of the offset index if the largest timestamp has grown, and once more when the segment
is sealed: the last entry of a sealed segment has its largest timestamp.

Owner: the event loop.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import NamedTuple

from odradek.storage.mapped_entries import MappedEntries

ENTRY = Struct(">qI")
NO_TIMESTAMP = -1


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


class TimeIndex:
    """A sparse map from timestamp to offset."""

    def __init__(self, path: Path, *, base_offset: int, bytes_max: int) -> None:
        self.base_offset = base_offset
        self.entries = MappedEntries(path, ENTRY, bytes_max=bytes_max)
        self._max_timestamp: int | None = None  # None: not read yet

    @property
    def is_full(self) -> bool:
        """One entry is reserved for sealing the segment."""
        return self.entries.count + 1 >= self.entries.capacity

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry, or an entry without timestamp at the segment's base offset."""
        count = self.entries.count
        return self.entry(count - 1) if count else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def is_later(self, timestamp: int) -> bool:
        """Whether the timestamp is larger than all entries."""
        if self._max_timestamp is None:
            self._max_timestamp = self.last_entry.timestamp
        return timestamp > self._max_timestamp

    def maybe_append(self, entry: TimestampOffset) -> None:
        """Append if the timestamp is larger; may use the entry that is reserved for sealing."""
        if self.is_later(entry.timestamp) and not self.entries.is_full:
            self.append(entry)

    def append(self, entry: TimestampOffset) -> None:
        """Append an entry; its timestamp must be larger than all entries."""
        timestamp, offset = entry
        self.entries.append(timestamp, offset - self.base_offset)
        self._max_timestamp = timestamp

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry at or before ``timestamp``, or the start of the segment."""
        count = self.entries.count_up_to(timestamp)
        return self.entry(count - 1) if count else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def entry(self, slot: int) -> TimestampOffset:
        timestamp, relative_offset = self.entries[slot]
        return TimestampOffset(timestamp, self.base_offset + relative_offset)

    def truncate(self, offset: int) -> None:
        """Remove every entry at or after ``offset``."""
        low, high = 0, self.entries.count
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle).offset < offset:
                low = middle + 1
            else:
                high = middle
        self.entries.truncate(low)
        self._max_timestamp = None

    def reset(self) -> None:
        """Remove every entry, whatever the state of the file."""
        self.entries.reset()
        self._max_timestamp = None
