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


def scan_for_max_timestamp(segment: LogSegment) -> TimestampOffset:
    """With the last offset of the first batch that has it."""
    largest = segment.time_index.last_entry
    is_time_index_full = (
        segment.time_index.is_full
    )  # of an old segment: the offset index may go on then
    entry = (
        segment.offset_index.lookup(largest.offset)
        if is_time_index_full
        else segment.offset_index.last_entry
    )
    with suppress(CorruptMessage):  # whoever reads the batches will be told
        for _, batch in segment.batches(start=entry.position):
            if batch.max_timestamp > largest.timestamp:
                largest = TimestampOffset(batch.max_timestamp, batch.last_offset)
    return largest


def contradicts_batch(segment: LogSegment, entry: TimestampOffset) -> bool:
    """Whether an entry of the time index is not true of the batch that it names."""
    with suppress(CorruptMessage):
        location = segment.translate_offset(entry.offset)
        return location is None or segment.read_batch(location).max_timestamp != entry.timestamp
    return False
