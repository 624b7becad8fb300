"""The largest timestamp of a segment whose time index lags or is wrong.

Entries are added to both indexes together, so both lag behind the batches by the same amount.  The
batches after the last entry are scanned.  An entry is trusted if it matches the batch that it
points to.

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
    """Return the largest timestamp and the last offset of the first batch that has it."""
    largest = segment.time_index.last_entry
    is_time_index_full = segment.time_index.is_full  # the offset index may then have more entries
    entry = (
        segment.offset_index.lookup(largest.offset)
        if is_time_index_full
        else segment.offset_index.last_entry
    )
    with suppress(CorruptMessage):  # readers of the batches get the error
        for _, batch in segment.batches(start=entry.position):
            if batch.max_timestamp > largest.timestamp:
                largest = TimestampOffset(batch.max_timestamp, batch.last_offset)
    return largest


def contradicts_batch(segment: LogSegment, entry: TimestampOffset) -> bool:
    """Whether an entry of the time index does not match the batch that it points to."""
    with suppress(CorruptMessage):
        location = segment.translate_offset(entry.offset)
        return location is None or segment.read_batch(location).max_timestamp != entry.timestamp
    return False
