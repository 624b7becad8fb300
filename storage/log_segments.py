"""The segments of a log, in the order of their base offsets.  Kafka: LogSegments.

Lookups use bisection, so a log with a thousand segments is as fast as one with ten.  The last
segment is the active one, and only it is appended to.  The list of the other segments that have
aborted transactions is cached: every read_committed fetch needs it, and few segments have any.

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
        #: Base offsets of the sealed segments with aborted transactions; None if not cached.
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
        """Whether there is one segment without a batch; renaming it moves the log start."""
        return len(self._segments) == 1 and not self._segments[0].size_bytes

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    def floor_segment(self, offset: int) -> LogSegment | None:
        """Return the segment whose range contains ``offset``; None before the first segment."""
        slot = bisect_right(self._base_offsets, offset) - 1
        return self._segments[slot] if slot >= 0 else None

    def get(self, base_offset: int) -> LogSegment | None:
        slot = bisect_left(self._base_offsets, base_offset)
        is_found = slot < len(self._segments) and self._base_offsets[slot] == base_offset
        return self._segments[slot] if is_found else None

    def higher_segment(self, segment: LogSegment) -> LogSegment | None:
        """Return the next segment; None after the active one."""
        slot = bisect_right(self._base_offsets, segment.base_offset)
        return self._segments[slot] if slot < len(self._segments) else None

    def from_offset(self, offset: int) -> list[LogSegment]:
        """Return the segment that contains ``offset`` and all later ones."""
        return self._segments[max(0, bisect_right(self._base_offsets, offset) - 1) :]

    def between(self, start: int, end: int) -> list[LogSegment]:
        """Return the segment that contains ``start`` to the last that begins before ``end``."""
        low = max(0, bisect_right(self._base_offsets, start) - 1)
        return self._segments[low : bisect_left(self._base_offsets, end)]

    def with_aborted_txns_from(self, offset: int) -> Iterator[LogSegment]:
        """Yield the segments with aborted transactions, from the one with ``offset`` on."""
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
        """Add a new active segment."""
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
        """Replace segments after compaction or truncation."""
        replaced = {segment.base_offset for segment in old}
        remaining = [segment for segment in self._segments if segment.base_offset not in replaced]
        self._set_segments([*remaining, *new])

    def _set_segments(self, segments: Iterable[LogSegment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._base_offsets = [segment.base_offset for segment in self._segments]
        self._base_offsets_with_aborted_txns = None


def _has_aborted_txns(segment: LogSegment) -> bool:
    return not segment.transaction_index.is_empty
