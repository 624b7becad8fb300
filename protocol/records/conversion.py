"""Conversion between record formats: down for Fetches of old clients, and to a log's format.

Kafka: RecordsUtil.downConvert, LogValidator.

Down-conversion keeps offsets (gaps left by compaction remain), codec and timestamp type; headers
and, in magic 0, timestamps are lost.  Control batches have no equivalent and are omitted.  Batches
that are old enough are passed on as they are, without a copy.

An append rebuilds the records of a producer if their format or codec differs from the log's: all
records become one batch (or, uncompressed below magic 2, one message each) and get the next
offsets.  Records of magic 0 have no timestamp and get none; old formats have no producer id.

Invariant: an inconsistent batch raises CorruptMessage and is never converted in part.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from odradek.protocol.errors import (
    CorruptMessage,
    EncodeError,
    InvalidRecord,
    InvalidTimestamp,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)
from odradek.protocol.records.batch import MAGIC
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import DECOMPRESSED_BYTES_MAX, Codec
from odradek.protocol.records.legacy_builder import LegacyBuilder, LegacyFormat
from odradek.protocol.records.record import NO_TIMESTAMP, Record, TimestampType
from odradek.protocol.records.record_set import AnyBatch, batches_of_any_magic, magic_of
from odradek.protocol.varint import Buffer

#: The conversion yields after this number of records, about half a millisecond.
RECORDS_PER_STEP = 100
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ConvertedRecords:
    buffer: Buffer
    converted_count: int  # the number of rewritten records


_NO_OUTPUT = ConvertedRecords(b"", 0)


def down_convert(
    source: Buffer, *, magic: int, first_offset: int, max_bytes: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[ConvertedRecords]:
    """Convert the whole batches of ``source`` to formats up to ``magic``, one at a time.

    ``first_offset`` is the client's fetch offset.  An uncompressed batch becomes one message per
    record from there on, because versions of librdkafka take the first message they receive for
    the one they requested.  ``max_bytes`` limits the decompressed size of each batch.

    A long batch yields empty results in between, so that the caller can yield to other work.
    """
    for batch in batches_of_any_magic(source):
        if magic < MAGIC and batch.is_control:
            continue
        if magic < MAGIC and batch.codec is Codec.ZSTD:
            raise UnsupportedCompressionType(f"magic {magic} does not support zstd")
        if magic_of(batch) <= magic:
            yield ConvertedRecords(batch.view, 0)
            continue
        from_offset = first_offset if batch.codec is Codec.NONE else 0
        builder = LegacyBuilder(_legacy_format(batch, magic))
        yield from _rebuild(_stored_records(batch, max_bytes), builder, from_offset)


def _rebuild(
    records: Iterator[Record], builder: LegacyBuilder, from_offset: int
) -> Iterator[ConvertedRecords]:
    for number, record in enumerate(records, start=1):
        if record.offset >= from_offset:
            builder.append(record)
        if not number % RECORDS_PER_STEP:
            yield _NO_OUTPUT
    if builder.count:
        yield ConvertedRecords(builder.build(), builder.count)


def _legacy_format(batch: AnyBatch, magic: int) -> LegacyFormat:
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return LegacyFormat(
        magic=magic,
        codec=batch.codec,
        append_time_ms=batch.max_timestamp if is_append_time else None,
    )


def _stored_records(batch: AnyBatch, max_bytes: int) -> Iterator[Record]:
    """Yield the records without headers; raises CorruptMessage if an old format cannot hold one."""
    batch.check_crc()
    previous = -1
    for offset, timestamp, key, value, _ in batch.records(max_bytes=max_bytes):
        # The checksum does not cover a batch's offset, and old wrappers may have any offset.
        if not previous < offset <= _INT64_MAX:
            raise CorruptMessage(f"a record with offset {offset} after {previous}")
        if timestamp < NO_TIMESTAMP:
            raise CorruptMessage(f"a record with timestamp {timestamp}")
        previous = offset
        yield Record(offset, timestamp, key, value)


def rebuild_for_append(
    batches: Sequence[AnyBatch],
    fields: BatchFields,
    *,
    magic: int = MAGIC,
    max_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> ConvertedRecords:
    """Rebuild the producer's batches in the log's format, with offsets from ``fields.base_offset``.

    Producer id, epoch and sequence are taken from the first batch, not from ``fields``.
    The caller has checked the batches' own checksums.
    """
    _check_batches(batches)
    assert not batches[0].is_control, "markers are appended unchanged"
    # Outside the try block: an error in the fields is not an error of the records.
    builder = (
        BatchBuilder(_with_producer(fields, batches[0]))
        if magic == MAGIC
        else LegacyBuilder(_legacy_format_for_append(fields, batches[0], magic))
    )
    records = _assign_offsets(batches, fields.base_offset, max_bytes)
    try:
        converted = (
            _build_batch(records, builder)
            if isinstance(builder, BatchBuilder)
            else _build_legacy_set(records, builder)
        )
    except EncodeError as error:
        raise InvalidRecord(f"the batch cannot be rewritten: {error}") from error
    if not converted.converted_count:
        raise InvalidRecord("the batch has no records")
    return converted


def _check_batches(batches: Sequence[AnyBatch]) -> None:
    """Check that there is one batch, or several uncompressed messages of the same old magic."""
    if not batches:
        raise InvalidRecord("no batch")
    magic = magic_of(batches[0])
    for batch in batches:
        if magic_of(batch) != magic:
            raise InvalidRecord(f"a batch of magic {magic_of(batch)} after one of magic {magic}")
        if len(batches) > 1 and (magic == MAGIC or batch.codec is not Codec.NONE):
            raise InvalidRecord("more than one batch, but they are compressed or of magic 2")


def _assign_offsets(
    batches: Sequence[AnyBatch], next_offset: int, max_bytes: int
) -> Iterator[Record]:
    for batch in batches:
        for _, timestamp, key, value, headers in batch.records(max_bytes=max_bytes):
            # The delta from NO_TIMESTAMP (-1) to the largest timestamp would not fit 64 bits.
            if not NO_TIMESTAMP <= timestamp < _INT64_MAX:
                raise InvalidTimestamp(f"a record with timestamp {timestamp}")
            yield Record(next_offset, timestamp, key, value, headers)
            next_offset += 1


def _with_producer(fields: BatchFields, batch: AnyBatch) -> BatchFields:
    return replace(
        fields,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
    )


def _build_batch(records: Iterator[Record], builder: BatchBuilder) -> ConvertedRecords:
    for offset, timestamp, key, value, headers in records:
        builder.append(offset=offset, timestamp=timestamp, key=key, value=value, headers=headers)
    return ConvertedRecords(builder.build() if builder.count else b"", builder.count)


def _legacy_format_for_append(fields: BatchFields, batch: AnyBatch, magic: int) -> LegacyFormat:
    if batch.is_transactional or batch.has_producer_id:
        raise UnsupportedForMessageFormat(f"magic {magic} does not support producer ids")
    return LegacyFormat(
        magic=magic, codec=fields.codec, level=fields.level, append_time_ms=fields.append_time_ms
    )


def _build_legacy_set(records: Iterator[Record], builder: LegacyBuilder) -> ConvertedRecords:
    for record in records:
        if record.headers:
            raise UnsupportedForMessageFormat(
                f"magic {builder.format.magic} does not support headers"
            )
        builder.append(record)
    return ConvertedRecords(builder.build(), builder.count)
