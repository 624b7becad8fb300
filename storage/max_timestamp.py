"""What is the largest timestamp of a segment, if its time index is behind, or wrong?

The two indexes are written together, and lag behind the batches together: those after the last
entry are looked at.  An entry is believed if it is true of the batch that it names.

Owner: the event loop.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from odradek.protocol.errors import CorruptMessage
from odradek.storage.time_index import TimestampOffset

if TYPE_CHECKING:
    from odradek.storage.log_segment import LogSegment


def largest_by_scan(segment: LogSegment) -> TimestampOffset:
    """With the last offset of the first batch that has it."""
    largest = segment.time_index.last
    is_ahead = segment.time_index.is_full  # of an old segment: the offset index may go on then
    entry = segment.index.lookup(largest.offset) if is_ahead else segment.index.last
    with suppress(CorruptMessage):  # whoever reads the batches will be told
        for _, batch in segment.batches(start=entry.position):
            if batch.max_timestamp > largest.timestamp:
                largest = TimestampOffset(batch.max_timestamp, batch.last_offset)
    return largest


def contradicts(segment: LogSegment, entry: TimestampOffset) -> bool:
    """Whether an entry of the time index is not true of the batch that it names."""
    with suppress(CorruptMessage):
        place = segment.find(entry.offset)
        return place is None or segment.batch_at(place).max_timestamp != entry.timestamp
    return False
