"""Is it time to seal the active segment and to begin another?

    by size       with what is to be appended it would be larger than ``segment.bytes``
    by index      one of its indexes is full
    by distance   an offset would be too far from its base for the 32 bits of an index entry
    by age        ``segment.ms`` has passed, or ``max.compaction.lag.ms`` in a compacted topic, as
                  nothing in an active segment is compacted; less a jitter, so that the segments of
                  partitions that began together are not all rolled together

The age is told by the records' own clock, so that replicas roll alike: from the timestamp of the
first batch to that of the batch to be appended.  Where the first has none, the broker's clock
counts, from when the segment was begun, or from when it was first asked about after a restart.

Owner: the event loop.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from zlib import crc32

from odradek.protocol.errors import CorruptMessage
from odradek.storage.log_segment import LogSegment
from odradek.storage.open_segments import restore_open_state
from odradek.storage.time_index import NO_TIMESTAMP
from odradek.storage.validation.offset_assignment import RecordsToAppend

if TYPE_CHECKING:
    from odradek.storage.unified_log import UnifiedLog


def should_roll(
    log: UnifiedLog, active: LogSegment, records_to_append: RecordsToAppend, now_ms: int
) -> bool:
    """Before ``admitted`` can be appended to the active segment."""
    rules, size_bytes = log.append_rules, active.size_bytes
    if (
        size_bytes + records_to_append.size_bytes > rules.segment_bytes
        or records_to_append.last_offset > active.offset_max
        or active.is_index_full
    ):
        return True
    if size_bytes == 0:
        return False
    limit_ms, jitter_ms = rules.segment_ms, rules.segment_jitter_ms
    if jitter_ms:
        limit_ms -= _jitter_ms(log, active, min(jitter_ms, limit_ms))
    first = active.first_batch_timestamp
    if first is None:
        first = get_first_batch_timestamp(active)
    if first > NO_TIMESTAMP:
        return records_to_append.max_timestamp - first > limit_ms
    return _age_ms(active, now_ms) > limit_ms


def _age_ms(segment: LogSegment, now_ms: int) -> int:
    if segment.created_ms is None:
        segment.created_ms = now_ms
    return now_ms - segment.created_ms


def get_first_batch_timestamp(segment: LogSegment) -> int:
    """The largest timestamp in the first batch of the segment; NO_TIMESTAMP if it has none."""
    timestamp = segment.first_batch_timestamp
    if timestamp is None:
        timestamp = NO_TIMESTAMP
        # Whoever reads the batch will be told of damage; whoever looks at many has none left open.
        with suppress(CorruptMessage), restore_open_state(segment):
            first = segment.translate_offset(segment.base_offset)
            if first is not None:
                timestamp = segment.read_batch(first).max_timestamp
        # Not before: a look for which no descriptor is left tells nothing.
        segment.first_batch_timestamp = timestamp
    return timestamp


def _jitter_ms(log: UnifiedLog, segment: LogSegment, max_ms: int) -> int:
    """The same after a restart."""
    return crc32(f"{log.partition} {segment.base_offset}".encode()) % max_ms
