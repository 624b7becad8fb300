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

from odradek.storage.abort_evidence import agrees_with_batches
from odradek.storage.log_segment import LogSegment
from odradek.storage.segment_list import SegmentList

#: A segment that was closed often has fewer entries than intervals.
INTERVALS_WITHOUT_ENTRY = 4


def has_sound_indexes(segment: LogSegment, segments: SegmentList) -> bool:
    """All three of them."""
    index, time_index = segment.index.entries, segment.time_index.entries
    return (
        index.was_there
        and time_index.was_there
        and index.has_whole_entries
        and time_index.has_whole_entries
        and _is_index_sound(segment)
        and _is_time_index_sound(segment)
        and segment.transaction_index.is_sound(base_offset=segment.base_offset)
        and agrees_with_batches(segment, segments)
    )


def _is_index_sound(segment: LogSegment) -> bool:
    ends = segment.index.entries.ends()
    if ends is None:
        return not _has_batch_beyond(segment, _position_without_entry(segment))
    # The first batch of a segment has no entry.
    relative_offset, position = ends[1]
    return bool(relative_offset > 0 and position > 0)


def _is_time_index_sound(segment: LogSegment) -> bool:
    ends = segment.time_index.entries.ends()
    if ends is None or segment.time_index.entries.count == 1:
        return True
    first, last = ends
    return bool(last[0] > first[0])


def _position_without_entry(segment: LogSegment) -> int:
    return INTERVALS_WITHOUT_ENTRY * segment.shape.index_interval_bytes


def _has_batch_beyond(segment: LogSegment, position: int) -> bool:
    """A single batch may be larger than many intervals."""
    if segment.size_bytes <= position:
        return False
    return any(place.position > position for place in segment.places())
