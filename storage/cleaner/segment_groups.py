"""Groups neighbouring segments that compaction merges into one segment.

Kafka: Cleaner.groupSegmentsBySize.

A group takes as many segments as fit the limits of one segment: the present bytes of the log and of
each index, and offsets that an index can express.  Without grouping, compaction would leave more
and more ever smaller segments.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from odradek.storage.cleaner.task import SealedSegment
from odradek.storage.offset_index import RELATIVE_OFFSET_MAX


class SegmentExtent(NamedTuple):
    """The sizes of a segment; ``end_offset`` is the base offset of the next segment."""

    segment: SealedSegment
    end_offset: int
    index_bytes: int
    time_index_bytes: int


def group_segments_by_size(
    extents: Iterable[SegmentExtent], *, segment_bytes_max: int, index_bytes_max: int
) -> Iterator[list[SealedSegment]]:
    """Yield the groups in order.  A segment that is too large forms its own group."""
    group: list[SealedSegment] = []
    log_bytes = index_bytes = time_index_bytes = 0
    for extent in extents:
        segment = extent.segment
        log_bytes += segment.size_bytes
        index_bytes += extent.index_bytes
        time_index_bytes += extent.time_index_bytes
        fits = (
            log_bytes <= segment_bytes_max
            and max(index_bytes, time_index_bytes) <= index_bytes_max
            and (not group or _fits_relative_offset(extent, group[0].base_offset))
        )
        if group and not fits:
            yield group
            group = []
            log_bytes = segment.size_bytes
            index_bytes, time_index_bytes = extent.index_bytes, extent.time_index_bytes
        group.append(segment)
    if group:
        yield group


def _fits_relative_offset(extent: SegmentExtent, base_offset: int) -> bool:
    """Return whether the offsets fit an index of that base.  An empty segment has no offsets."""
    is_empty = extent.segment.size_bytes == 0
    return is_empty or extent.end_offset - 1 - base_offset <= RELATIVE_OFFSET_MAX
