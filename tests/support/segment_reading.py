"""Segments as our own record code reads and writes them, in the terms of recorded_segments."""

from typing import Any

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import BatchBuilder, fields_of
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.control_records import parse_end_transaction_marker
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.protocol.records.legacy_builder import LegacyFormat, build_legacy_set
from odradek.protocol.records.record import TimestampType
from odradek.protocol.records.record_set import AnyBatch, batches_of_any_magic, magic_of
from tests.support.java_client import SeenRecord
from tests.support.recorded_segments import StoredBatch

TYPE_NAMES = {
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


def batches_in_segment(log: bytes) -> list[AnyBatch]:
    """All batches, which must fill the segment."""
    found = batches_of_any_magic(log)
    batches = list(found)
    assert found.partial_bytes == 0
    return batches


def stored_batches(log: bytes) -> tuple[StoredBatch, ...]:
    return tuple(_described(batch) for batch in batches_in_segment(log))


def seen_records(log: bytes) -> tuple[SeenRecord, ...]:
    """What a consumer that reads uncommitted records would return."""
    return tuple(
        SeenRecord(
            offset=record.offset,
            timestamp=record.timestamp,
            timestamp_type=_type_name(batch),
            key=record.key,
            value=record.value,
            headers=tuple((header.key, header.value) for header in record.headers),
        )
        for batch in batches_in_segment(log)
        if not batch.is_control
        for record in batch
    )


def can_be_rebuilt_alike(batch: AnyBatch) -> bool:
    """Whether its records say all that its bytes do.

    Compressors differ in their output, and a batch of magic 2 with the broker's timestamp still
    holds those of its creation, which nobody gets to see.
    """
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return batch.codec is Codec.NONE and not (is_append_time and isinstance(batch, RecordBatch))


def rebuilt(batch: AnyBatch) -> bytes:
    """What our builders make of its records."""
    if isinstance(batch, LegacyBatch):
        is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
        form = LegacyFormat(
            magic=batch.magic, append_time_ms=batch.max_timestamp if is_append_time else None
        )
        return bytes(build_legacy_set(batch, form))
    builder = BatchBuilder(fields_of(batch))
    for record in batch:
        builder.append(
            offset=record.offset,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
    return bytes(builder.build())


def _described(batch: AnyBatch) -> StoredBatch:
    return StoredBatch(
        position=batch.position,
        size=batch.size_bytes,
        magic=magic_of(batch),
        codec=batch.codec.name.lower(),
        crc=batch.checksum,
        timestamp_type=_type_name(batch),
        timestamp=batch.max_timestamp,
        last_offset=batch.last_offset,
        **(_described_further(batch) if isinstance(batch, RecordBatch) else {}),
    )


def _described_further(batch: RecordBatch) -> dict[str, Any]:
    marker = parse_end_transaction_marker(next(iter(batch))) if batch.is_control else None
    return {
        "base_offset": batch.base_offset,
        "count": batch.count,
        "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "partition_leader_epoch": batch.partition_leader_epoch,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "marker": marker and ("COMMIT" if marker.is_commit else "ABORT"),
        "coordinator_epoch": marker and marker.coordinator_epoch,
    }


def _type_name(batch: AnyBatch) -> str:
    return "NoTimestampType" if magic_of(batch) == 0 else TYPE_NAMES[batch.timestamp_type]
