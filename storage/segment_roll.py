"""Decides when to roll a new segment.  Kafka: UnifiedLog.maybeRoll, LogSegment.shouldRoll.

    by size       the append would make the segment larger than ``segment.bytes``
    by index      one of its indexes is full
    by distance   an offset would not fit into the 32 bits of an index entry
    by age        ``segment.ms`` has passed, or ``max.compaction.lag.ms`` in a compacted topic,
                  because the active segment is never compacted; less a jitter, which prevents
                  partitions created together from rolling together

The age is measured with record timestamps, so that replicas roll at the same offset: from the
timestamp of the first batch to that of the batch to append.  If the first batch has no timestamp,
the broker's clock is used, from the creation of the segment or the first check after a restart.

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
    """Whether to roll before ``records_to_append`` are appended to the active segment."""
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
    """Return the largest timestamp in the first batch; NO_TIMESTAMP if it has none."""
    timestamp = segment.first_batch_timestamp
    if timestamp is None:
        timestamp = NO_TIMESTAMP
        # Readers of the batch get the error.  Segments that were closed are closed again.
        with suppress(CorruptMessage), restore_open_state(segment):
            first = segment.translate_offset(segment.base_offset)
            if first is not None:
                timestamp = segment.read_batch(first).max_timestamp
        # Cached only here: a read that fails for lack of descriptors has no result.
        segment.first_batch_timestamp = timestamp
    return timestamp


def _jitter_ms(log: UnifiedLog, segment: LogSegment, max_ms: int) -> int:
    """Derive the jitter from the segment, so it is the same after a restart."""
    return crc32(f"{log.partition} {segment.base_offset}".encode()) % max_ms
