"""The segments of a log, in the order of their base offsets.

Readers find theirs by bisection, so a log of a thousand segments is as quick as one of ten.  The
last segment is the active one: the only one that is appended to.  Which of the others have aborted
transactions is found out once, since every fetch of committed records asks and few segments do.

Owner: the event loop.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from odradek.storage.log_segment import LogSegment


class SegmentList:
    """Segments by base offset; none may be added between two others except by ``replace``."""

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._base_offsets = [segment.base_offset for segment in self._segments]
        #: Of the sealed segments that have aborted transactions; None if it has to be found out.
        self._aborting: list[int] | None = None

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    def __reversed__(self) -> Iterator[LogSegment]:
        return reversed(self._segments)

    @property
    def first(self) -> LogSegment:
        return self._segments[0]

    @property
    def active(self) -> LogSegment:
        return self._segments[-1]

    @property
    def is_bare(self) -> bool:
        """Whether there is but one, without a batch: by another name the log begins elsewhere."""
        return len(self._segments) == 1 and not self._segments[0].size_bytes

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    def holding(self, offset: int) -> LogSegment | None:
        """The segment in which ``offset`` is, if it is anywhere; None before the first."""
        slot = bisect_right(self._base_offsets, offset) - 1
        return self._segments[slot] if slot >= 0 else None

    def at(self, base_offset: int) -> LogSegment | None:
        slot = bisect_left(self._base_offsets, base_offset)
        found = slot < len(self._segments) and self._base_offsets[slot] == base_offset
        return self._segments[slot] if found else None

    def after(self, segment: LogSegment) -> LogSegment | None:
        """The next segment; None after the active one."""
        slot = bisect_right(self._base_offsets, segment.base_offset)
        return self._segments[slot] if slot < len(self._segments) else None

    def from_offset(self, offset: int) -> list[LogSegment]:
        """The segment that holds ``offset`` and all later ones."""
        return self._segments[max(0, bisect_right(self._base_offsets, offset) - 1) :]

    def between(self, start: int, end: int) -> list[LogSegment]:
        """From the segment that holds ``start`` to the last that begins before ``end``."""
        low = max(0, bisect_right(self._base_offsets, start) - 1)
        return self._segments[low : bisect_left(self._base_offsets, end)]

    def aborting_from(self, offset: int) -> Iterator[LogSegment]:
        """The segment that holds ``offset`` and later ones, if they have aborted transactions."""
        if self._aborting is None:
            sealed = self._segments[:-1]
            self._aborting = [each.base_offset for each in sealed if _is_aborting(each)]
        holding = self.holding(offset) or self.first
        for slot in range(bisect_left(self._aborting, holding.base_offset), len(self._aborting)):
            segment = self.at(self._aborting[slot])
            assert segment is not None, self._aborting[slot]
            yield segment
        if _is_aborting(self.active):
            yield self.active

    def add(self, segment: LogSegment) -> None:
        """A new active segment."""
        assert not self._segments or segment.base_offset > self.active.base_offset, segment
        if self._aborting is not None and self._segments and _is_aborting(self.active):
            self._aborting.append(self.active.base_offset)
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)

    def remove(self, segments: Iterable[LogSegment]) -> None:
        removed = {segment.base_offset for segment in segments}
        self._become(kept for kept in self._segments if kept.base_offset not in removed)

    def replace(self, old: Iterable[LogSegment], new: Iterable[LogSegment]) -> None:
        """Compaction is done: ``new`` hold what ``old`` held."""
        replaced = {segment.base_offset for segment in old}
        kept = [segment for segment in self._segments if segment.base_offset not in replaced]
        self._become([*kept, *new])

    def _become(self, segments: Iterable[LogSegment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._base_offsets = [segment.base_offset for segment in self._segments]
        self._aborting = None


def _is_aborting(segment: LogSegment) -> bool:
    return not segment.transaction_index.is_empty
