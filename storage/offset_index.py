"""The .index file of a segment maps an offset to a position in the .log file.  Kafka: OffsetIndex.

The file is an array of 8-byte entries in ascending order, big-endian:

    relative offset  uint32   offset minus the base offset of the segment
    position         uint32   byte position, in the .log file, of the batch holding that offset

The index is sparse.  The segment adds an entry about every ``index.interval.bytes``, for the last
offset of the batch that it appends.  A lookup therefore returns the position where a scan of the
.log file starts, not the position of the offset itself.

An open index is preallocated; closing truncates it to its entries.  A crash therefore leaves a file
of the wrong length or with zeros at its end, which is rebuilt when the log is opened.  There is no
checksum: a reader that follows an entry checks it against the batch at that position.

Owner: the event loop.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import NamedTuple

from odradek.storage.batch_scan import BatchLocation
from odradek.storage.mapped_entries import MappedEntries

ENTRY = Struct(">II")
RELATIVE_OFFSET_MAX = 0x7FFFFFFF


class OffsetPosition(NamedTuple):
    offset: int
    position: int

    def can_point_to(self, location: BatchLocation) -> bool:
        """Whether the entry can have been written for the batch at its position."""
        return self.position == 0 or location.base_offset <= self.offset


class OffsetIndex:
    """A sparse map from offset to file position."""

    def __init__(self, path: Path, *, base_offset: int, bytes_max: int) -> None:
        self.base_offset = base_offset
        self.entries = MappedEntries(path, ENTRY, bytes_max=bytes_max)
        self._last_appended_offset = -1

    @property
    def is_full(self) -> bool:
        return self.entries.is_full

    def can_append_offset(self, offset: int) -> bool:
        """Whether the relative offset fits into an entry."""
        return 0 <= offset - self.base_offset <= RELATIVE_OFFSET_MAX

    def append(self, offset: int, position: int) -> None:
        """Index the batch at ``position``, which contains ``offset``.  Offsets must ascend."""
        assert offset > self._last_appended_offset, (self, offset)
        self.entries.append(offset - self.base_offset, position)
        self._last_appended_offset = offset

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or before ``offset``, or the start of the segment."""
        count = self._count_up_to(offset)
        return self.entry(count - 1) if count else OffsetPosition(self.base_offset, 0)

    def lookup_with_next(self, offset: int) -> tuple[OffsetPosition, int]:
        """Like ``lookup``, with the position of the next entry, or the same if there is none."""
        count = self._count_up_to(offset)
        entries = self.entries
        entry = self.entry(count - 1) if count else OffsetPosition(self.base_offset, 0)
        return entry, entries[count][1] if count < entries.count else entry.position

    @property
    def last_entry(self) -> OffsetPosition:
        """The last entry, or the start of the segment if there is none."""
        count = self.entries.count
        return self.entry(count - 1) if count else OffsetPosition(self.base_offset, 0)

    def entry_after(self, position: int) -> OffsetPosition | None:
        """Return the first entry with a greater position, or None."""
        low, high = 0, self.entries.count
        while low < high:
            middle = (low + high) // 2
            if self.entries[middle][1] > position:
                high = middle
            else:
                low = middle + 1
        return self.entry(low) if low < self.entries.count else None

    def entry(self, slot: int) -> OffsetPosition:
        relative_offset, position = self.entries[slot]
        return OffsetPosition(self.base_offset + relative_offset, position)

    def truncate(self, offset: int) -> None:
        """Remove every entry at or after ``offset``."""
        self.entries.truncate(self._count_up_to(offset - 1))
        self._last_appended_offset = -1

    def reset(self) -> None:
        """Remove every entry, whatever the state of the file."""
        self.entries.reset()
        self._last_appended_offset = -1

    def _count_up_to(self, offset: int) -> int:
        count = self.entries.count
        # Most lookups are at the end of the log, after the last appended entry.
        if count and -1 < self._last_appended_offset <= offset:
            return count
        return self.entries.count_up_to(offset - self.base_offset)
