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


class LogSegments:
    """Segments by base offset; none may be added between two others except by ``replace``."""

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._base_offsets = [segment.base_offset for segment in self._segments]
        #: Of the sealed segments that have aborted transactions; None if it has to be found out.
        self._base_offsets_with_aborted_txns: list[int] | None = None

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
    def is_single_empty_segment(self) -> bool:
        """Whether there is but one, without a batch: by another name the log begins elsewhere."""
        return len(self._segments) == 1 and not self._segments[0].size_bytes

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    def floor_segment(self, offset: int) -> LogSegment | None:
        """The segment in which ``offset`` is, if it is anywhere; None before the first."""
        slot = bisect_right(self._base_offsets, offset) - 1
        return self._segments[slot] if slot >= 0 else None

    def get(self, base_offset: int) -> LogSegment | None:
        slot = bisect_left(self._base_offsets, base_offset)
        is_found = slot < len(self._segments) and self._base_offsets[slot] == base_offset
        return self._segments[slot] if is_found else None

    def higher_segment(self, segment: LogSegment) -> LogSegment | None:
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

    def with_aborted_txns_from(self, offset: int) -> Iterator[LogSegment]:
        """The segment that holds ``offset`` and later ones, if they have aborted transactions."""
        if self._base_offsets_with_aborted_txns is None:
            sealed = self._segments[:-1]
            self._base_offsets_with_aborted_txns = [
                segment.base_offset for segment in sealed if _has_aborted_txns(segment)
            ]
        containing = self.floor_segment(offset) or self.first
        for slot in range(
            bisect_left(self._base_offsets_with_aborted_txns, containing.base_offset),
            len(self._base_offsets_with_aborted_txns),
        ):
            segment = self.get(self._base_offsets_with_aborted_txns[slot])
            assert segment is not None, self._base_offsets_with_aborted_txns[slot]
            yield segment
        if _has_aborted_txns(self.active):
            yield self.active

    def add(self, segment: LogSegment) -> None:
        """A new active segment."""
        assert not self._segments or segment.base_offset > self.active.base_offset, segment
        if (
            self._base_offsets_with_aborted_txns is not None
            and self._segments
            and _has_aborted_txns(self.active)
        ):
            self._base_offsets_with_aborted_txns.append(self.active.base_offset)
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)

    def remove(self, segments: Iterable[LogSegment]) -> None:
        removed = {segment.base_offset for segment in segments}
        self._set_segments(each for each in self._segments if each.base_offset not in removed)

    def replace(self, old: Iterable[LogSegment], new: Iterable[LogSegment]) -> None:
        """Compaction is done: ``new`` hold what ``old`` held."""
        replaced = {segment.base_offset for segment in old}
        remaining = [segment for segment in self._segments if segment.base_offset not in replaced]
        self._set_segments([*remaining, *new])

    def _set_segments(self, segments: Iterable[LogSegment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._base_offsets = [segment.base_offset for segment in self._segments]
        self._base_offsets_with_aborted_txns = None


def _has_aborted_txns(segment: LogSegment) -> bool:
    return not segment.transaction_index.is_empty
