"""Validates records for an append and assigns their offsets and leader epoch.

A leader assigns both: it patches its 12 bytes of the batch header in the memory that the records
were received in.  With log append time it also patches the timestamp and the checksum.  A follower
accepts the offsets and epochs of the leader if they continue its log.

This module does not change the log.  A rejected record set may already be patched, so its memory
must not be used again.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.protocol.errors import KafkaError
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.record import NO_TIMESTAMP, TimestampType
from odradek.protocol.records.record_set import AnyBatch, batches_of_any_magic
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.validation.append_rules import AppendRules
from odradek.storage.validation.errors import (
    OffsetsOutOfOrder,
    UnexpectedAppendOffset,
    UnexpectedLeaderEpoch,
)
from odradek.storage.validation.log_validator import validate_batch
from odradek.storage.validation.validated_batch import ValidatedBatch

NO_OFFSET = -1


# Not frozen, because creating one for every append would then take five times as long.
@dataclass(slots=True)
class RecordsToAppend:
    """Validated batches.  Treat as immutable.  Without batches there are no offsets."""

    buffers: list[memoryview | bytearray]  # the bytes to write, in order
    batches: list[AnyBatch]  # the same bytes, parsed
    size_bytes: int
    first_offset: int  # for an old wrapper, which does not have it in its header, the last offset
    last_offset: int
    max_timestamp: int
    append_time_ms: int = NO_TIMESTAMP  # set with log append time
    converted_count: int = 0  # the number of records that were rewritten


def validate_and_assign_offsets(
    records: memoryview | bytearray | ValidatedBatch,
    rules: AppendRules,
    *,
    next_offset: int,
    leader_epoch: int,
    origin: AppendOrigin,
    now_ms: int,
) -> RecordsToAppend:
    """Validate records on the leader.  ``records`` must be writable and are patched in place.

    A ValidatedBatch is not read again, unless it was validated with other rules.
    """
    if type(records) is ValidatedBatch:
        if records.rules == rules:
            return _assign_offsets_to_validated(records, next_offset, leader_epoch, now_ms)
        records = records.records
    batch = validate_batch(records, rules, origin=origin, now_ms=now_ms)
    if batch is None:
        return _no_records()
    batch.assign_offsets(next_offset, leader_epoch)
    last_offset = next_offset + batch.last_offset_delta
    size_bytes = batch.size_bytes
    is_all = batch.buffer is records and size_bytes == len(records)
    return RecordsToAppend(  # by position, which takes half as long as by keyword
        [records if is_all else batch.view],
        [batch],
        size_bytes,
        next_offset,
        last_offset,
        batch.max_timestamp,
        now_ms if rules.is_log_append_time else NO_TIMESTAMP,
        0 if batch.buffer is records else batch.count,
    )


def _assign_offsets_to_validated(
    validated: ValidatedBatch, next_offset: int, leader_epoch: int, now_ms: int
) -> RecordsToAppend:
    outcome, is_append_time = validated.outcome, validated.rules.is_log_append_time
    if isinstance(outcome, KafkaError):
        raise outcome
    if outcome.batch is None:
        return _no_records()
    batch = RecordBatch(outcome.batch)
    if is_append_time:
        batch.set_max_timestamp(now_ms, TimestampType.LOG_APPEND_TIME)
    batch.assign_offsets(next_offset, leader_epoch)
    return RecordsToAppend(
        buffers=[outcome.batch],
        batches=[batch],
        size_bytes=batch.size_bytes,
        first_offset=next_offset,
        last_offset=batch.last_offset,
        max_timestamp=batch.max_timestamp,
        append_time_ms=now_ms if is_append_time else NO_TIMESTAMP,
        converted_count=outcome.converted_count,
    )


def validate_follower_records(
    records: memoryview | bytearray, leader_epoch: int | None = None, *, next_offset: int
) -> RecordsToAppend:
    """Validate records on a follower whose log ends at ``next_offset``.

    A leader in ``leader_epoch`` cannot send a batch of a later epoch.  If it does, it became a
    follower while it was sending its file, truncated the file, and wrote records of the new leader
    there.  That batch and all later ones are ignored.
    """
    batches: list[AnyBatch] = []
    last_offset, max_timestamp, size_bytes = NO_OFFSET, NO_TIMESTAMP, 0
    whole_batches = batches_of_any_magic(records)
    for batch in whole_batches:
        if leader_epoch is not None and batch.partition_leader_epoch > leader_epoch:
            if not batches:
                raise UnexpectedLeaderEpoch(
                    f"{batch} has a later epoch than the leader epoch {leader_epoch}"
                )
            break
        if _first_or_last_offset(batch) <= last_offset or batch.last_offset <= last_offset:
            raise OffsetsOutOfOrder(f"offsets out of order: {batch} follows offset {last_offset}")
        batch.check_crc()
        batches.append(batch)
        last_offset = batch.last_offset
        max_timestamp = max(max_timestamp, batch.max_timestamp)
        size_bytes = whole_batches.position
    if not batches:
        return _no_records()
    first_offset = _first_or_last_offset(batches[0])
    if first_offset < next_offset:
        raise UnexpectedAppendOffset(
            first_offset=batches[0].base_offset, last_offset=last_offset, next_offset=next_offset
        )
    return RecordsToAppend(
        buffers=[memoryview(records)[:size_bytes]],
        batches=batches,
        size_bytes=size_bytes,
        first_offset=first_offset,
        last_offset=last_offset,
        max_timestamp=max_timestamp,
    )


def _first_or_last_offset(batch: AnyBatch) -> int:
    """Return the last offset of a wrapper: its first is only known after decompression."""
    return batch.base_offset if isinstance(batch, RecordBatch) else batch.last_offset


def _no_records() -> RecordsToAppend:
    return RecordsToAppend(
        buffers=[],
        batches=[],
        size_bytes=0,
        first_offset=NO_OFFSET,
        last_offset=NO_OFFSET,
        max_timestamp=NO_TIMESTAMP,
    )
