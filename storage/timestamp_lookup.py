"""Which offset belongs to a timestamp?

Timestamps need not ascend: producers send what they like.  The answer to "first at or after T" is
the first record, in the order of offsets, whose timestamp is T or later.  The time index says of
each segment what its largest timestamp is, and from where on a larger one can be found; from there
the batches are looked at, and in the first with a large enough timestamp, its records.

An answer from damaged batches would be a guess: they are CorruptMessage.

Looking for a record in a batch takes as long as it has records, which may be a million.  So whoever
asks may bring a way to ``look``, which knows what was found in a batch already, or refuses.

Before KIP-79 (ListOffsets v0) nobody looked at records: ``offsets_before`` knows no more of a
segment than when it was last written.

Segments that are opened for a look are closed again, as there may be any number of them.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.largest_timestamp import contradicts
from odradek.storage.log import Log
from odradek.storage.log_segment import LogSegment
from odradek.storage.open_segments import left_as_found
from odradek.storage.retention import written_ms
from odradek.storage.time_index import NO_TIMESTAMP, TimestampOffset

NO_EPOCH = -1

# What ListOffsets asks for by timestamps that no record has.
LATEST = -1
EARLIEST = -2


class FoundOffset(NamedTuple):
    """An offset and what is known about it: -1 for no timestamp and for no leader epoch."""

    offset: int
    timestamp: int = NO_TIMESTAMP
    leader_epoch: int = NO_EPOCH


class Sought(NamedTuple):
    """In a batch, from ``start`` on: the first record as young as that, or the youngest of all."""

    timestamp: int | None  # None: the largest that there is
    start: int


Look = Callable[[AnyBatch, Sought], FoundOffset | None]


def found_in(batch: AnyBatch, sought: Sought) -> FoundOffset | None:
    """Reads the records of the batch; may run in a worker process."""
    timestamp, start = sought
    if timestamp is None:
        return _largest_in_batch(batch, start)
    for record in batch.records():
        if record.timestamp >= timestamp and record.offset >= start:
            return FoundOffset(record.offset, record.timestamp, batch.partition_leader_epoch)
    return None


def _largest_in_batch(batch: AnyBatch, start: int) -> FoundOffset | None:
    best: FoundOffset | None = None
    largest = NO_TIMESTAMP
    for record in batch.records():
        if record.timestamp > largest and record.offset >= start:
            largest = record.timestamp
            best = FoundOffset(record.offset, largest, batch.partition_leader_epoch)
    return best


def earliest(log: Log) -> FoundOffset:
    """The start of the log."""
    first = log.epochs.earliest
    is_known = first is not None and first.start_offset <= log.start_offset
    epoch = first.epoch if first is not None and is_known else NO_EPOCH
    return FoundOffset(log.start_offset, leader_epoch=epoch)


def latest(log: Log) -> FoundOffset:
    """The end of the log; what a client may see of it is the caller's to say."""
    return FoundOffset(log.end_offset, leader_epoch=log.epochs.latest_epoch)


def first_at_or_after(log: Log, timestamp: int, look: Look = found_in) -> FoundOffset | None:
    """The first record from the start of the log on that is as young as ``timestamp``."""
    sought = Sought(timestamp, log.start_offset)
    for segment in log.segments.from_offset(log.start_offset):
        if segment.largest.timestamp >= timestamp:
            with left_as_found(segment):
                found = _first_in_segment(segment, timestamp, sought, look)
            if found is not None:
                return found
    return None


def of_largest_timestamp(log: Log, look: Look = found_in) -> FoundOffset | None:
    """The first record, from the start of the log on, that has the largest timestamp of all.

    None if no record has a timestamp.
    """
    best: FoundOffset | None = None
    segments = log.segments.from_offset(log.start_offset)
    for segment in sorted(segments, key=lambda each: each.largest.timestamp, reverse=True):
        largest = segment.largest.timestamp
        if largest <= NO_TIMESTAMP or (best is not None and largest < best.timestamp):
            break
        with left_as_found(segment):
            found = _largest_in_segment(segment, log.start_offset, look)
        best = found if best is None or (found and _is_better(found, best)) else best
    return best


def offsets_before(log: Log, timestamp: int, *, max_offsets: int, now_ms: int) -> list[int]:
    """Where segments begin that were written to no later than ``timestamp``, newest first.

    The end of the log counts as written now, unless an empty segment begins there.  LATEST asks
    for the last of all these offsets, EARLIEST for the first alone.  What a client may see of them
    is the caller's to say.
    """
    known = [
        (max(segment.base_offset, log.start_offset), written_ms(segment))
        for segment in log.segments
    ]
    if log.segments.active.size_bytes:
        known.append((log.end_offset, now_ms))
    if timestamp == EARLIEST:
        known = known[:1]
    elif timestamp != LATEST:
        while known and known[-1][1] > timestamp:
            known.pop()
    newest_first = [offset for offset, _ in reversed(known)]
    return newest_first[: max(0, max_offsets)]


def _is_better(one: FoundOffset, other: FoundOffset) -> bool:
    return (one.timestamp, -one.offset) > (other.timestamp, -other.offset)


def _largest_in_segment(segment: LogSegment, start: int, look: Look) -> FoundOffset | None:
    """The record that the largest timestamp of the segment is from may be there no more.

    It may lie before the start, or compaction may have taken it out of its batch.
    """
    largest = segment.largest.timestamp
    found = _first_in_segment(segment, largest, Sought(largest, start), look)
    return found or _largest_by_scan(segment, start, look)


def _largest_by_scan(segment: LogSegment, start: int, look: Look) -> FoundOffset | None:
    """Those with the largest timestamps first, so that few have to be looked into."""
    best: FoundOffset | None = None
    claims = [
        (-batch.max_timestamp, position)
        for position, batch in _batches_from(segment, start)
        if batch.max_timestamp > NO_TIMESTAMP
    ]
    for negative_timestamp, position in sorted(claims):
        if best is not None and -negative_timestamp < best.timestamp:
            break
        _, batch = next(segment.batches(start=position))
        found = look(batch, Sought(None, start))
        best = found if best is None or (found and _is_better(found, best)) else best
    return best


def _first_in_segment(
    segment: LogSegment, timestamp: int, sought: Sought, look: Look
) -> FoundOffset | None:
    entry = _entry_before(segment, timestamp)
    for _, batch in _batches_from(segment, max(entry.offset, sought.start)):
        if batch.max_timestamp >= timestamp:
            found = look(batch, sought)
            if found is not None:
                return found
    return None


def _entry_before(segment: LogSegment, timestamp: int) -> TimestampOffset:
    """Up to whose offset everything is older than ``timestamp``."""
    entry = segment.time_index.lookup(timestamp - 1)
    is_noted = entry != (NO_TIMESTAMP, segment.base_offset)
    if is_noted and contradicts(segment, entry):
        segment.rebuild_indexes()
        entry = segment.time_index.lookup(timestamp - 1)
    return entry


def _batches_from(segment: LogSegment, offset: int) -> Iterator[tuple[int, AnyBatch]]:
    """From the one that holds ``offset`` on; CorruptMessage at one that is damaged."""
    first = segment.find(offset)
    if first is not None:
        for position, batch in segment.batches(start=first.position):
            batch.check_crc()
            yield position, batch
