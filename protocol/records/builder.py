"""Builds batches of magic 2, for coordinators, control records, compaction, conversion and tests.

Kafka: MemoryRecordsBuilder.  An uncompressed batch has exactly the bytes that Kafka's Java producer
produces for the same records.

Owner: one builder, one batch, one owner.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from odradek.protocol.errors import EncodeError
from odradek.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    CHECKSUM_POSITION,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    RecordBatch,
)
from odradek.protocol.records.compression import Codec, check_level, compress
from odradek.protocol.records.crc32c import crc32c
from odradek.protocol.records.record import (
    NO_TIMESTAMP,
    Header,
    TimestampType,
    size_of_record,
    write_record,
)
from odradek.protocol.varint import Buffer

_CHECKSUM = struct.Struct(">I")
_OFFSET_DELTA_MAX = 2**31 - 1
_TIMESTAMP_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFields:
    """The header fields of a new batch, except those that follow from its records."""

    base_offset: int = 0
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    codec: Codec = Codec.NONE
    level: int | None = None  # None is the codec's default
    append_time_ms: int | None = None  # None: CreateTime, each record has its own timestamp
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False
    delete_horizon_ms: int | None = None


def fields_of(batch: RecordBatch) -> BatchFields:
    """Return the fields that a rewritten ``batch`` keeps."""
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return BatchFields(
        base_offset=batch.base_offset,
        partition_leader_epoch=batch.partition_leader_epoch,
        codec=batch.codec,
        append_time_ms=batch.max_timestamp if is_append_time else None,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        delete_horizon_ms=batch.delete_horizon_ms,
    )


_DEFAULT_FIELDS = BatchFields()


class BatchBuilder:
    """Takes records one by one, in the order of their offsets, and builds one batch."""

    def __init__(
        self, fields: BatchFields = _DEFAULT_FIELDS, *, size_bytes_max: int | None = None
    ) -> None:
        """``size_bytes_max`` is used only by ``has_room_for``."""
        check_level(fields.codec, fields.level)
        self.fields = fields
        self.size_bytes_max = size_bytes_max
        self.count = 0
        self.next_offset = fields.base_offset
        self.max_timestamp = NO_TIMESTAMP
        self._base_timestamp = fields.delete_horizon_ms
        self._buffer = bytearray(HEADER_BYTES)
        self._is_built = False

    @property
    def size_bytes(self) -> int:
        """The size of the uncompressed batch."""
        return len(self._buffer)

    def has_room_for(
        self,
        *,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header] = (),
    ) -> bool:
        """Return whether one more record fits the limit; the first one always does."""
        if self.size_bytes_max is None or not self.count or self._base_timestamp is None:
            return True
        added = size_of_record(
            timestamp_delta=timestamp - self._base_timestamp,
            offset_delta=self.next_offset - self.fields.base_offset,
            key=key,
            value=value,
            headers=headers,
        )
        return self.size_bytes + added <= self.size_bytes_max

    def append(
        self,
        *,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header] = (),
        offset: int | None = None,
    ) -> None:
        """Append a record at ``offset``; None is the next. Gaps are allowed, decreases are not."""
        next_offset = self.next_offset
        if offset is None:
            offset = next_offset
        offset_delta = offset - self.fields.base_offset
        if offset < next_offset or offset_delta > _OFFSET_DELTA_MAX:
            raise EncodeError(
                f"offset {offset}: must be at least {next_offset} and fit a batch with base offset "
                f"{self.fields.base_offset}"
            )
        assert not self._is_built
        base_timestamp = self._base_timestamp
        if base_timestamp is None:
            base_timestamp = timestamp
        timestamp_delta = timestamp - base_timestamp
        # The delta from NO_TIMESTAMP (-1) to the largest timestamp would not fit 64 bits.
        if not NO_TIMESTAMP <= timestamp <= _TIMESTAMP_MAX or timestamp_delta > _TIMESTAMP_MAX:
            raise EncodeError(
                f"timestamp {timestamp}: out of range in a batch with base timestamp "
                f"{base_timestamp}"
            )
        write_record(
            self._buffer,
            timestamp_delta=timestamp_delta,
            offset_delta=offset_delta,
            key=key,
            value=value,
            headers=headers,
        )
        self._base_timestamp = base_timestamp
        self.count += 1
        self.next_offset = offset + 1
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp

    def build(self, *, last_offset: int | None = None) -> bytearray:
        """Return the batch; the builder cannot be used afterwards.

        Compaction passes the ``last_offset`` of the original batch, which the new batch keeps.
        """
        assert self.count, "use empty_batch for a batch without records"
        assert self._base_timestamp is not None
        assert not self._is_built
        self._is_built = True
        fields, buffer = self.fields, self._buffer
        if fields.codec is not Codec.NONE:
            packed = compress(fields.codec, memoryview(buffer)[HEADER_BYTES:], level=fields.level)
            buffer = bytearray(HEADER_BYTES) + packed
        if last_offset is None:
            last_offset = self.next_offset - 1
        assert last_offset >= self.next_offset - 1, (last_offset, self.next_offset)
        append_time = fields.append_time_ms
        _write_header(
            buffer,
            fields,
            last_offset=last_offset,
            base_timestamp=self._base_timestamp,
            max_timestamp=self.max_timestamp if append_time is None else append_time,
            count=self.count,
        )
        return buffer


def empty_batch(fields: BatchFields, *, last_offset: int, max_timestamp: int) -> bytearray:
    """Build the batch that compaction keeps, without records, to preserve the producer's state."""
    buffer = bytearray(HEADER_BYTES)
    plain = replace(fields, codec=Codec.NONE, level=None, delete_horizon_ms=None)
    _write_header(
        buffer,
        plain,
        last_offset=last_offset,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=max_timestamp,
        count=0,
    )
    return buffer


def _write_header(
    buffer: bytearray,
    fields: BatchFields,
    *,
    last_offset: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
) -> None:
    """Fill in the first 61 bytes of ``buffer``, which already holds the rest of the batch."""
    _check_producer(fields)
    try:
        HEADER.pack_into(
            buffer,
            0,
            fields.base_offset,
            len(buffer) - LOG_OVERHEAD_BYTES,
            fields.partition_leader_epoch,
            MAGIC,
            0,
            _attributes(fields),
            last_offset - fields.base_offset,
            base_timestamp,
            max_timestamp,
            fields.producer_id,
            fields.producer_epoch,
            fields.base_sequence,
            count,
        )
    except struct.error as error:
        raise EncodeError(f"{fields} up to offset {last_offset}: {error}") from error
    checksum = crc32c(memoryview(buffer)[ATTRIBUTES_POSITION:])
    _CHECKSUM.pack_into(buffer, CHECKSUM_POSITION, checksum)


def _check_producer(fields: BatchFields) -> None:
    if fields.producer_id == NO_PRODUCER_ID:
        if fields.is_transactional:
            raise EncodeError("is_transactional: must not be set without a producer id")
        return
    if fields.producer_epoch == NO_PRODUCER_EPOCH:
        raise EncodeError("producer_epoch: must be set in a batch with a producer id")
    if fields.base_sequence == NO_SEQUENCE and not fields.is_control:
        raise EncodeError("base_sequence: must be set in a batch with a producer id")


def _attributes(fields: BatchFields) -> int:
    return (
        fields.codec
        | (LOG_APPEND_TIME_FLAG if fields.append_time_ms is not None else 0)
        | (TRANSACTIONAL_FLAG if fields.is_transactional else 0)
        | (CONTROL_FLAG if fields.is_control else 0)
        | (DELETE_HORIZON_FLAG if fields.delete_horizon_ms is not None else 0)
    )
