"""The .timeindex file of a segment: from which offset on can a record be as young as T?

The file is an array of 12-byte entries, big-endian, timestamps strictly ascending:

    timestamp        int64    the largest up to this point of the segment
    relative offset  uint32   of the batch that has it, minus the base offset of the segment

An entry says: everything before that offset is older than, or as old as, the timestamp.  Entries
are added together with those of the offset index, when the largest timestamp has grown, and once
more when the segment is sealed, so that the last entry of a sealed segment holds its largest
timestamp.

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
        self._max_timestamp: int | None = None  # None: not looked up yet

    @property
    def is_full(self) -> bool:
        """One entry is kept free for sealing the segment."""
        return self.entries.count + 1 >= self.entries.capacity

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry, or one without a timestamp at the segment's base."""
        count = self.entries.count
        return self.entry(count - 1) if count else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def is_later(self, timestamp: int) -> bool:
        """Whether it exceeds all that are here."""
        if self._max_timestamp is None:
            self._max_timestamp = self.last_entry.timestamp
        return timestamp > self._max_timestamp

    def maybe_append(self, entry: TimestampOffset) -> None:
        """Even into the last free place, which is for sealing."""
        if self.is_later(entry.timestamp) and not self.entries.is_full:
            self.append(entry)

    def append(self, entry: TimestampOffset) -> None:
        """Its timestamp must be later than all before."""
        timestamp, offset = entry
        self.entries.append(timestamp, offset - self.base_offset)
        self._max_timestamp = timestamp

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry at or before ``timestamp``, or the start of the segment."""
        count = self.entries.count_up_to(timestamp)
        return self.entry(count - 1) if count else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def entry(self, slot: int) -> TimestampOffset:
        timestamp, relative_offset = self.entries[slot]
        return TimestampOffset(timestamp, self.base_offset + relative_offset)

    def truncate(self, offset: int) -> None:
        """Forget every entry at or after ``offset``."""
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
        """Forget every entry, whatever state the file is in."""
        self.entries.reset()
        self._max_timestamp = None
