"""Which neighbouring segments become one when a log is compacted?

As many as stay, all together, within what a segment may hold before it is rolled: the bytes of the
log and of each index as they are now, and offsets that an index can express.  Otherwise compaction
would leave ever more and ever smaller segments.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from odradek.storage.cleaner.task import SealedSegment
from odradek.storage.offset_index import RELATIVE_OFFSET_MAX


class SegmentExtent(NamedTuple):
    """How much room a segment takes; ``end_offset`` is where the next one begins."""

    segment: SealedSegment
    end_offset: int
    index_bytes: int
    time_index_bytes: int


def group_segments_by_size(
    extents: Iterable[SegmentExtent], *, segment_bytes_max: int, index_bytes_max: int
) -> Iterator[list[SealedSegment]]:
    """The segments in groups, in order; one that is too large stands alone."""
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
    """An empty segment is near everything: it has no offsets."""
    is_empty = extent.segment.size_bytes == 0
    return is_empty or extent.end_offset - 1 - base_offset <= RELATIVE_OFFSET_MAX
