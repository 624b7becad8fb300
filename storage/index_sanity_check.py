"""Can the indexes of a segment be believed, by what a short look at them tells?

    missing, or no whole number of entries   they were not closed
    zeros at the end                         neither were they, or a power cut has undone the cut
                                             that closing makes
    no entries, though there should be some  making them anew was broken off

All entries are not looked at, as a thousand partitions have to be opened quickly: what is wrong
among them is seen by the batch that an entry leads to, when it is used.  A time index that lacks
its last entry is seen when the largest timestamp is asked for.  Transaction indexes are few and
short, and nobody would notice later that one is wrong.

Owner: whoever opens the log.
"""

from __future__ import annotations

from odradek.storage.log_segment import LogSegment
from odradek.storage.log_segments import LogSegments
from odradek.storage.txn_index_sanity_check import txn_index_matches_batches

#: A segment that was closed often has fewer entries than intervals.
INTERVALS_WITHOUT_ENTRY = 4


def passes_sanity_check(segment: LogSegment, segments: LogSegments) -> bool:
    """All three of them."""
    index, time_index = segment.offset_index.entries, segment.time_index.entries
    return (
        index.existed
        and time_index.existed
        and index.has_whole_entries
        and time_index.has_whole_entries
        and _passes_offset_index_check(segment)
        and _passes_time_index_check(segment)
        and segment.transaction_index.passes_sanity_check(base_offset=segment.base_offset)
        and txn_index_matches_batches(segment, segments)
    )


def _passes_offset_index_check(segment: LogSegment) -> bool:
    ends = segment.offset_index.entries.read_first_and_last()
    if ends is None:
        return not _has_batch_beyond(segment, _unindexed_position_max(segment))
    # The first batch of a segment has no entry.
    relative_offset, position = ends[1]
    return bool(relative_offset > 0 and position > 0)


def _passes_time_index_check(segment: LogSegment) -> bool:
    ends = segment.time_index.entries.read_first_and_last()
    if ends is None or segment.time_index.entries.count == 1:
        return True
    first, last = ends
    return bool(last[0] > first[0])


def _unindexed_position_max(segment: LogSegment) -> int:
    return INTERVALS_WITHOUT_ENTRY * segment.config.index_interval_bytes


def _has_batch_beyond(segment: LogSegment, position: int) -> bool:
    """A single batch may be larger than many intervals."""
    if segment.size_bytes <= position:
        return False
    return any(location.position > position for location in segment.batch_locations())
