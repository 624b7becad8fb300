"""Which offset belongs to a timestamp?

Timestamps need not ascend: producers send what they like.  The answer to "first at or after T" is
the first record, in the order of offsets, whose timestamp is T or later.  The time index says of
each segment what its largest timestamp is, and from where on a larger one can be found; from there
the batches are looked at, and in the first with a large enough timestamp, its records.

Owner: the event loop.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.log import Log
from odradek.storage.log_segment import LogSegment
from odradek.storage.time_index import NO_TIMESTAMP

NO_EPOCH = -1


class FoundOffset(NamedTuple):
    """An offset and what is known about it: -1 for no timestamp and for no leader epoch."""

    offset: int
    timestamp: int = NO_TIMESTAMP
    leader_epoch: int = NO_EPOCH


def earliest(log: Log) -> FoundOffset:
    """The start of the log."""
    first = log.epochs.earliest
    is_known = first is not None and first.start_offset <= log.start_offset
    epoch = first.epoch if first is not None and is_known else NO_EPOCH
    return FoundOffset(log.start_offset, leader_epoch=epoch)


def latest(log: Log) -> FoundOffset:
    """The end of the log; what a client may see of it is the caller's to say."""
    return FoundOffset(log.end_offset, leader_epoch=log.epochs.latest_epoch)


def first_at_or_after(log: Log, timestamp: int) -> FoundOffset | None:
    """The first record from the start of the log on that is as young as ``timestamp``."""
    for segment in log.segments.from_offset(log.start_offset):
        if segment.largest.timestamp >= timestamp:
            found = _first_in_segment(segment, timestamp, start=log.start_offset)
            if found is not None:
                return found
    return None


def of_largest_timestamp(log: Log) -> FoundOffset | None:
    """The first record with the largest timestamp of all; None if no record has a timestamp."""
    segments = log.segments.from_offset(log.start_offset)
    segment = max(segments, key=lambda each: each.largest.timestamp)
    largest = segment.largest.timestamp
    if largest == NO_TIMESTAMP:
        return None
    return _first_in_segment(segment, largest, start=log.start_offset)


def _first_in_segment(segment: LogSegment, timestamp: int, *, start: int) -> FoundOffset | None:
    entry = segment.time_index.lookup(timestamp - 1)
    begin = segment.index.lookup(max(entry.offset, start)).position
    for _, batch in segment.batches(start=begin):
        if batch.max_timestamp >= timestamp and batch.last_offset >= start:
            found = _first_in_batch(batch, timestamp, start=start)
            if found is not None:
                return found
    return None


def _first_in_batch(batch: AnyBatch, timestamp: int, *, start: int) -> FoundOffset | None:
    for record in batch.records():
        if record.timestamp >= timestamp and record.offset >= start:
            return FoundOffset(record.offset, record.timestamp, batch.partition_leader_epoch)
    return None
