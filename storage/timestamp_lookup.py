"""Finds the offset that belongs to a timestamp.  Kafka: UnifiedLog.fetchOffsetByTimestamp.

Timestamps need not ascend, because producers set them.  "First at or after T" is the first record,
in the order of offsets, whose timestamp is T or later.  The time index has the largest timestamp of
each segment and the offset after which a larger timestamp can occur.  The search scans the batches
from there, and then the records of the first batch with a large enough timestamp.

A result from corrupt batches would be a guess: they raise CorruptMessage.

The search in a batch takes time in proportion to its records, possibly a million.  The caller may
therefore pass its own ``search``, which can use a cached result for the batch or raise an error.

Before KIP-79 (ListOffsets v0) the search did not read records: ``legacy_offsets_before`` only uses
the modification time of each segment.

Segments that the search opens are closed again, because there may be any number of them.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.log_segment import LogSegment
from odradek.storage.max_timestamp import contradicts_batch
from odradek.storage.open_segments import restore_open_state
from odradek.storage.retention import last_modified_ms
from odradek.storage.time_index import NO_TIMESTAMP, TimestampOffset
from odradek.storage.unified_log import UnifiedLog

NO_EPOCH = -1

# Special timestamps of ListOffsets.
LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2


class TimestampAndOffset(NamedTuple):
    """An offset with its timestamp and leader epoch, each -1 if there is none."""

    offset: int
    timestamp: int = NO_TIMESTAMP
    leader_epoch: int = NO_EPOCH


class TimestampQuery(NamedTuple):
    """Search a batch for the first record with this timestamp or later, or for the largest."""

    timestamp: int | None  # None: the largest timestamp
    start_offset: int


BatchLookup = Callable[[AnyBatch, TimestampQuery], TimestampAndOffset | None]


def find_in_batch(batch: AnyBatch, query: TimestampQuery) -> TimestampAndOffset | None:
    """Read the records of the batch; may run in a worker process."""
    timestamp, start = query
    if timestamp is None:
        return _max_timestamp_in_batch(batch, start)
    for record in batch.records():
        if record.timestamp >= timestamp and record.offset >= start:
            return TimestampAndOffset(record.offset, record.timestamp, batch.partition_leader_epoch)
    return None


def _max_timestamp_in_batch(batch: AnyBatch, start: int) -> TimestampAndOffset | None:
    best: TimestampAndOffset | None = None
    largest = NO_TIMESTAMP
    for record in batch.records():
        if record.timestamp > largest and record.offset >= start:
            largest = record.timestamp
            best = TimestampAndOffset(record.offset, largest, batch.partition_leader_epoch)
    return best


def earliest_offset(log: UnifiedLog) -> TimestampAndOffset:
    """Return the log start offset."""
    first = log.leader_epoch_cache.earliest_entry
    is_known = first is not None and first.start_offset <= log.log_start_offset
    epoch = first.epoch if first is not None and is_known else NO_EPOCH
    return TimestampAndOffset(log.log_start_offset, leader_epoch=epoch)


def latest_offset(log: UnifiedLog) -> TimestampAndOffset:
    """Return the log end offset; the caller limits it to what the client may see."""
    return TimestampAndOffset(log.log_end_offset, leader_epoch=log.leader_epoch_cache.latest_epoch)


def offset_for_timestamp(
    log: UnifiedLog, timestamp: int, search: BatchLookup = find_in_batch
) -> TimestampAndOffset | None:
    """Return the first record, from the log start on, with this timestamp or a later one."""
    query = TimestampQuery(timestamp, log.log_start_offset)
    for segment in log.segments.from_offset(log.log_start_offset):
        if segment.max_timestamp_and_offset.timestamp >= timestamp:
            with restore_open_state(segment):
                found = _first_match_in_segment(segment, timestamp, query, search)
            if found is not None:
                return found
    return None


def offset_of_max_timestamp(
    log: UnifiedLog, search: BatchLookup = find_in_batch
) -> TimestampAndOffset | None:
    """Return the first record, from the log start on, that has the largest timestamp.

    Return None if no record has a timestamp.
    """
    best: TimestampAndOffset | None = None
    segments = log.segments.from_offset(log.log_start_offset)
    for segment in sorted(
        segments, key=lambda each: each.max_timestamp_and_offset.timestamp, reverse=True
    ):
        largest = segment.max_timestamp_and_offset.timestamp
        if largest <= NO_TIMESTAMP or (best is not None and largest < best.timestamp):
            break
        with restore_open_state(segment):
            found = _max_timestamp_in_segment(segment, log.log_start_offset, search)
        best = found if best is None or (found and _is_later(found, best)) else best
    return best


def legacy_offsets_before(
    log: UnifiedLog, timestamp: int, *, max_offsets: int, now_ms: int
) -> list[int]:
    """Return base offsets of segments last modified at ``timestamp`` or before, newest first.

    The log end offset counts as modified now, unless an empty segment begins there.  With LATEST
    all these offsets qualify, with EARLIEST only the first.  The caller limits the result to what
    the client may see.
    """
    candidates = [
        (max(segment.base_offset, log.log_start_offset), last_modified_ms(segment))
        for segment in log.segments
    ]
    if log.segments.active.size_bytes:
        candidates.append((log.log_end_offset, now_ms))
    if timestamp == EARLIEST_TIMESTAMP:
        candidates = candidates[:1]
    elif timestamp != LATEST_TIMESTAMP:
        while candidates and candidates[-1][1] > timestamp:
            candidates.pop()
    newest_first = [offset for offset, _ in reversed(candidates)]
    return newest_first[: max(0, max_offsets)]


def _is_later(one: TimestampAndOffset, other: TimestampAndOffset) -> bool:
    return (one.timestamp, -one.offset) > (other.timestamp, -other.offset)


def _max_timestamp_in_segment(
    segment: LogSegment, start: int, search: BatchLookup
) -> TimestampAndOffset | None:
    """Scan the segment if the record with its largest timestamp no longer exists.

    That record may be before the log start, or compaction may have removed it from its batch.
    """
    largest = segment.max_timestamp_and_offset.timestamp
    found = _first_match_in_segment(segment, largest, TimestampQuery(largest, start), search)
    return found or _scan_for_max_timestamp(segment, start, search)


def _scan_for_max_timestamp(
    segment: LogSegment, start: int, search: BatchLookup
) -> TimestampAndOffset | None:
    """Read the batches with the largest timestamps first; few have to be searched."""
    best: TimestampAndOffset | None = None
    candidates = [
        (-batch.max_timestamp, position)
        for position, batch in _batches_from(segment, start)
        if batch.max_timestamp > NO_TIMESTAMP
    ]
    for negative_timestamp, position in sorted(candidates):
        if best is not None and -negative_timestamp < best.timestamp:
            break
        _, batch = next(segment.batches(start=position))
        found = search(batch, TimestampQuery(None, start))
        best = found if best is None or (found and _is_later(found, best)) else best
    return best


def _first_match_in_segment(
    segment: LogSegment, timestamp: int, query: TimestampQuery, search: BatchLookup
) -> TimestampAndOffset | None:
    entry = _time_index_entry_before(segment, timestamp)
    for _, batch in _batches_from(segment, max(entry.offset, query.start_offset)):
        if batch.max_timestamp >= timestamp:
            found = search(batch, query)
            if found is not None:
                return found
    return None


def _time_index_entry_before(segment: LogSegment, timestamp: int) -> TimestampOffset:
    """Return an entry before whose offset all records are older than ``timestamp``."""
    entry = segment.time_index.lookup(timestamp - 1)
    is_in_index = entry != (NO_TIMESTAMP, segment.base_offset)
    if is_in_index and contradicts_batch(segment, entry):
        segment.rebuild_indexes()
        entry = segment.time_index.lookup(timestamp - 1)
    return entry


def _batches_from(segment: LogSegment, offset: int) -> Iterator[tuple[int, AnyBatch]]:
    """Yield from the batch that contains ``offset`` on; raise CorruptMessage at a corrupt one."""
    first = segment.translate_offset(offset)
    if first is not None:
        for position, batch in segment.batches(start=first.position):
            batch.check_crc()
            yield position, batch
