"""Quick checks of the indexes of a segment when a log is opened.  Kafka: AbstractIndex.sanityCheck.

    missing, or no whole number of entries   the index was not closed
    zeros at the end                         the index was not closed, or a power cut has undone the
                                             truncation at close
    no entries, though there should be some  a rebuild of the index was interrupted

The checks do not read all entries, because a thousand partitions must open quickly.  A wrong entry
is detected when it is used: the batch that it points to does not match.  A time index that lacks
its last entry is detected when the largest timestamp is read.  Transaction indexes are few and
short and are checked completely, because a wrong entry would not be detected later.

Owner: the thread that opens the log.
"""

from __future__ import annotations

from odradek.storage.log_segment import LogSegment
from odradek.storage.log_segments import LogSegments
from odradek.storage.txn_index_sanity_check import txn_index_matches_batches

#: A segment that was closed often has fewer entries than index intervals.
INTERVALS_WITHOUT_ENTRY = 4


def passes_sanity_check(segment: LogSegment, segments: LogSegments) -> bool:
    """Check all three indexes of the segment."""
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
    # The first batch of a segment has no index entry.
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
    """Look at the batches, because a single batch may be larger than many index intervals."""
    if segment.size_bytes <= position:
        return False
    return any(location.position > position for location in segment.batch_locations())
