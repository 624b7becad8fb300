"""The .index file of a segment: where in the .log file should a search for offset N begin?

The file is an array of 8-byte entries in ascending order, big-endian:

    relative offset  uint32   offset minus the base offset of the segment
    position         uint32   byte position, in the .log file, of the batch holding that offset

The index is sparse.  The segment adds an entry about every ``index.interval.bytes``, for the last
offset of what it then appends, so a lookup yields a place to start scanning, never the answer.

An open index is preallocated; closing cuts it to its entries.  A crash therefore leaves a file of
the wrong length or with zeros at its end, which is made anew when the log is opened.  There is no
checksum: whoever follows an entry sees by the batch it finds there whether the entry is sound.

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
        """Whether it can have been written for the batch that is where it leads."""
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
        """Whether the offset is near enough to the base to be noted here."""
        return 0 <= offset - self.base_offset <= RELATIVE_OFFSET_MAX

    def append(self, offset: int, position: int) -> None:
        """Note that the batch at ``position`` holds ``offset``.  Offsets must ascend."""
        assert offset > self._last_appended_offset, (self, offset)
        self.entries.append(offset - self.base_offset, position)
        self._last_appended_offset = offset

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry at or before ``offset``, or the start of the segment if there is none."""
        count = self._count_up_to(offset)
        return self.entry(count - 1) if count else OffsetPosition(self.base_offset, 0)

    def lookup_with_next(self, offset: int) -> tuple[OffsetPosition, int]:
        """As ``lookup``, and the position of the entry after it, or the same if there is none."""
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
        """The first entry whose position is greater, if there is one."""
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
        """Forget every entry at or after ``offset``."""
        self.entries.truncate(self._count_up_to(offset - 1))
        self._last_appended_offset = -1

    def reset(self) -> None:
        """Forget every entry, whatever state the file is in."""
        self.entries.reset()
        self._last_appended_offset = -1

    def _count_up_to(self, offset: int) -> int:
        count = self.entries.count
        # Most reads are at the end of the log, and what was noted last is known.
        if count and -1 < self._last_appended_offset <= offset:
            return count
        return self.entries.count_up_to(offset - self.base_offset)
