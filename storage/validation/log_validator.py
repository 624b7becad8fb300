"""Validates a record set for an append on the leader, and returns the batch to write.

Kafka: LogValidator, and UnifiedLog.analyzeAndValidateRecords.

The checks run in Kafka's order, so that a set with several errors gets the same error as in Kafka:

    bytes         a base offset of 0 (clients), the size, the checksum, a known codec
    set           one batch of magic 2 or one wrapper, or uncompressed messages of one old magic
    header        as many records as offsets, and a valid producer
    first record  if uncompressed, it fits the batch, and fills it if it is the only record
    records       only if something depends on them: see ``_needs_record_validation``

Old formats, and batches with another codec than the topic's, are rewritten as one batch of magic 2,
and the size is checked again.  docs/validation.md lists what is not checked in a batch whose
records are not read.

Invariant: a batch that needs no rewriting is neither decompressed nor copied.  The returned batch
is then a view of the received memory.
"""

from collections.abc import Sequence

from odradek.protocol.errors import (
    CorruptMessage,
    DecodeError,
    InvalidProducerEpoch,
    InvalidRecord,
    MessageTooLarge,
    RecordListTooLarge,
    UnsupportedCompressionType,
)
from odradek.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    CHECKSUM_POSITION,
    CONTROL_FLAG,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    MAGIC_POSITION,
    NO_PRODUCER_ID,
    TRANSACTIONAL_FLAG,
    RecordBatch,
    whole_batch_bytes,
)
from odradek.protocol.records.builder import BatchFields
from odradek.protocol.records.compression import DECOMPRESSED_BYTES_MAX, Codec, decompress
from odradek.protocol.records.conversion import rebuild_for_append
from odradek.protocol.records.crc32c import crc32c
from odradek.protocol.records.record import TimestampType
from odradek.protocol.records.record_set import AnyBatch, batches_of_any_magic
from odradek.protocol.varint import Buffer, read_varint
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.validation.append_rules import AppendRules
from odradek.storage.validation.errors import validation_error_for
from odradek.storage.validation.record_validation import validate_records

_COORDINATOR = AppendOrigin.COORDINATOR
_CLIENT = AppendOrigin.CLIENT  # a lookup on the enum would take four times as long
_CODEC_BITS = 0x07
_ZSTD = int(Codec.ZSTD)
_RECORD_BYTES_MIN = 7
_MESSAGE_BYTES_MIN = 26
_MESSAGE_COUNT_SCAN_MAX = 1000
#: A count that is too high to validate on the event loop.
UNKNOWN_RECORD_COUNT = 2**31
#: Compressing or decompressing 64 bytes takes as long as validating one record.
_BYTES_PER_RECORD_SHIFT = 6
_FIRST_VERSION_OF_MAGIC_2 = 3
FIRST_VERSION_OF_ZSTD = 7


def validate_produce_records(records: Buffer, *, version: int) -> None:
    """Check which formats a Produce request of this version may carry; v0 to v2 carry any."""
    if version < _FIRST_VERSION_OF_MAGIC_2:
        return
    size_bytes = whole_batch_bytes(records, 0)
    if not size_bytes:
        raise InvalidRecord("the record set has no complete batch")
    if records[MAGIC_POSITION] != MAGIC:
        raise InvalidRecord(
            f"magic {records[MAGIC_POSITION]} is not allowed in a Produce request "
            f"of version {version}"
        )
    if version < FIRST_VERSION_OF_ZSTD and _codec_bits(records) == _ZSTD:
        raise UnsupportedCompressionType(
            f"zstd is not allowed in a Produce request of version {version}"
        )
    if size_bytes < len(records) and whole_batch_bytes(records, size_bytes):
        raise InvalidRecord("the record set has more than one batch")


def _codec_bits(records: Buffer) -> int:
    return records[ATTRIBUTES_POSITION + 1] & _CODEC_BITS


def validation_cost(records: Buffer, rules: AppendRules) -> int:
    """Estimate from the headers how many records ``validate_batch`` would read.

    Bytes to compress or decompress are converted into a number of records of the same cost.
    """
    if len(records) <= ATTRIBUTES_POSITION:
        return 0
    if records[MAGIC_POSITION] != MAGIC:
        return _count_legacy_messages(records) + compression_cost(0, len(records))
    try:
        batch = RecordBatch(records)
    except CorruptMessage:
        return 0
    if not batch.count or batch.size_bytes > rules.max_message_bytes:
        return 0
    needs_recompression = rules.codec is not None and _needs_recompression(batch, rules.codec)
    if needs_recompression or (
        batch.attributes & _CODEC_BITS and _needs_record_validation(batch, rules)
    ):
        return batch.count + compression_cost(batch.attributes, batch.size_bytes)
    return batch.count if _needs_record_validation(batch, rules) else 0


def compression_cost(attributes: int, size_bytes: int) -> int:
    """Return a lower bound: the decompressed size may be a thousand times as large."""
    return size_bytes >> (4 if attributes & _CODEC_BITS else _BYTES_PER_RECORD_SHIFT)


def decompressed_cost(records: Buffer, *, max_cost: int) -> int:
    """Return the cost to add to ``validation_cost`` for the decompressed size of one batch.

    This decompresses the batch, but stops when ``max_cost`` is exceeded.  Then, or if the batch
    cannot be decompressed, the result is UNKNOWN_RECORD_COUNT.
    """
    if records[MAGIC_POSITION] != MAGIC or not _codec_bits(records):
        return 0
    batch = RecordBatch(records)
    packed = batch.view[HEADER_BYTES : batch.size_bytes]
    max_bytes = min(max_cost << _BYTES_PER_RECORD_SHIFT, DECOMPRESSED_BYTES_MAX)
    try:
        return len(decompress(batch.codec, packed, max_bytes=max_bytes)) >> _BYTES_PER_RECORD_SHIFT
    except CorruptMessage:
        return UNKNOWN_RECORD_COUNT


def _count_legacy_messages(records: Buffer) -> int:
    """Count messages of magic 0 or 1.  The number of messages in a wrapper is unknown."""
    max_count = len(records) // _MESSAGE_BYTES_MIN
    if max_count > _MESSAGE_COUNT_SCAN_MAX:
        return max_count
    count = 0
    try:
        for message in batches_of_any_magic(records):
            if isinstance(message, RecordBatch) or message.attributes & _CODEC_BITS:
                return UNKNOWN_RECORD_COUNT
            count += 1
    except CorruptMessage:
        return count  # validation stops at this message
    return count


def validate_batch(
    records: Buffer, rules: AppendRules, *, origin: AppendOrigin, now_ms: int
) -> RecordBatch | None:
    """Return the batch to write, without its offset and leader epoch; None if none is complete.

    It is a view of ``records`` unless it had to be rewritten.
    """
    validated = None
    if rules.allows_fast_path and origin is _CLIENT:
        validated = _try_fast_path(records, rules)
    elif origin is _COORDINATOR and not rules.is_log_append_time:
        validated = _validate_coordinator_batch(records, rules)
    if validated is not None:
        return validated
    if not whole_batch_bytes(records, 0):
        return None
    if records[MAGIC_POSITION] != MAGIC:
        batch = _rewrite(_read_legacy_messages(records, rules), rules, now_ms)
    else:
        is_client = origin is _CLIENT
        batch = _read_single_batch(records, rules, is_client=is_client)
        _check_header(batch, is_client=is_client)
        if rules.codec is not None and _needs_recompression(batch, rules.codec):
            batch = _rewrite([batch], rules, now_ms)
        else:
            _validate_and_set_timestamp(batch, rules, now_ms)
    if batch.size_bytes > rules.segment_bytes:
        raise RecordListTooLarge(
            f"Message batch size is {batch.size_bytes} bytes, which exceeds the maximum configured "
            f"segment size of {rules.segment_bytes}"
        )
    return batch


def _try_fast_path(records: Buffer, rules: AppendRules) -> RecordBatch | None:
    """Return the batch if it is an ordinary producer batch; None selects the general path.

    One condition instead of a dozen calls, which would take longer than the checksum of 16 KB.
    """
    try:
        batch = RecordBatch(records)
    except CorruptMessage:
        return None
    size_bytes, attributes, count = batch.size_bytes, batch.attributes, batch.count
    codec_bits = attributes & ~TRANSACTIONAL_FLAG  # only codec bits, if the batch is ordinary
    is_anonymous = batch.producer_id == NO_PRODUCER_ID and attributes == codec_bits
    is_usual = (
        batch.base_offset == 0
        and size_bytes == len(records)
        and size_bytes <= rules.max_message_bytes
        and size_bytes <= rules.segment_bytes
        and 0 <= codec_bits <= _ZSTD  # signed, so this also rejects bit 15
        and count == batch.last_offset_delta + 1
        and (codec_bits or _first_record_fits(records, size_bytes, count))
        and batch.max_timestamp >= batch.base_timestamp
        and (is_anonymous or _has_valid_producer(batch))
    )
    if not is_usual:
        return None
    batch.check_crc()
    return batch


def _validate_coordinator_batch(records: Buffer, rules: AppendRules) -> RecordBatch | None:
    """Validate only the size of a batch that was built in this process.

    Return None if it must be recompressed.
    """
    batch = RecordBatch(records)
    if rules.codec is not None and _needs_recompression(batch, rules.codec):
        return None
    if batch.size_bytes > rules.max_message_bytes:
        raise _too_large_error(batch, rules)
    if batch.size_bytes > rules.segment_bytes:
        raise RecordListTooLarge(
            f"Message batch size is {batch.size_bytes} bytes, which exceeds the maximum configured "
            f"segment size of {rules.segment_bytes}"
        )
    return batch


def _first_record_fits(records: Buffer, size_bytes: int, count: int) -> bool:
    """Return whether the first, uncompressed record leaves room for all others.

    This takes less than 1 us.  A check of all records would take as long for each record.
    """
    rest_bytes = (count - 1) * _RECORD_BYTES_MIN
    if size_bytes - HEADER_BYTES < rest_bytes + _RECORD_BYTES_MIN:
        return False
    length, position = records[HEADER_BYTES], HEADER_BYTES + 1
    if length > 0x7F:
        second, position = records[position], position + 1
        if second > 0x7F:
            return _long_record_fits(records, size_bytes - rest_bytes, is_only_record=count == 1)
        length = length & 0x7F | second << 7
    end = position + (length >> 1)
    # Zig-zag encoding: an odd value is negative.
    return not length & 1 and (end == size_bytes if count == 1 else end + rest_bytes <= size_bytes)


def _long_record_fits(records: Buffer, end_max: int, *, is_only_record: bool) -> bool:
    try:
        length, position = read_varint(records, HEADER_BYTES)
    except DecodeError:
        return False
    end = position + length
    return length >= 0 and (end == end_max if is_only_record else end <= end_max)


def _has_valid_producer(batch: RecordBatch) -> bool:
    return batch.producer_id >= 0 and batch.producer_epoch >= 0 and batch.base_sequence >= 0


def _read_single_batch(records: Buffer, rules: AppendRules, *, is_client: bool) -> RecordBatch:
    """Return the only batch of magic 2 in ``records``."""
    try:
        batch = RecordBatch(records)
    except CorruptMessage as error:
        raise _header_error(records, error) from error
    if is_client and batch.base_offset != 0:
        raise InvalidRecord(f"base offset {batch.base_offset} in a client batch: must be 0")
    _check_size_and_crc(batch, rules)
    if batch.size_bytes < len(records) and whole_batch_bytes(records, batch.size_bytes):
        raise InvalidRecord("the record set has more than one batch")
    return batch


def _header_error(records: Buffer, error: CorruptMessage) -> CorruptMessage | InvalidRecord:
    """Return InvalidRecord if the checksum is correct: the client sent exactly these bytes."""
    batch = memoryview(records)[: whole_batch_bytes(records, 0)]
    checksum = int.from_bytes(batch[CHECKSUM_POSITION:ATTRIBUTES_POSITION], "big")
    if len(batch) >= HEADER_BYTES and checksum == crc32c(batch[ATTRIBUTES_POSITION:]):
        return InvalidRecord(str(error))
    return error


def _read_legacy_messages(records: Buffer, rules: AppendRules) -> list[AnyBatch]:
    """Return the messages of magic 0 or 1 in ``records``."""
    messages: list[AnyBatch] = []
    for message in batches_of_any_magic(records):
        _check_size_and_crc(message, rules)
        messages.append(message)
    return messages


def _check_size_and_crc(batch: AnyBatch, rules: AppendRules) -> None:
    if batch.size_bytes > rules.max_message_bytes:
        raise _too_large_error(batch, rules)
    batch.check_crc()
    if batch.attributes & _CODEC_BITS > _ZSTD:
        raise UnsupportedCompressionType(
            f"unknown compression codec {batch.attributes & _CODEC_BITS}"
        )


def _too_large_error(batch: AnyBatch, rules: AppendRules) -> MessageTooLarge:
    return MessageTooLarge(
        f"The record batch size is {batch.size_bytes} bytes which exceeds the maximum configured "
        f"value of {rules.max_message_bytes}"
    )


def _check_header(batch: RecordBatch, *, is_client: bool) -> None:
    count = batch.count
    if count != batch.last_offset_delta + 1:
        raise InvalidRecord(
            f"record count {count} does not match the {batch.last_offset_delta + 1} offsets "
            f"of the batch"
        )
    if (
        not batch.attributes & _CODEC_BITS
        and count * _RECORD_BYTES_MIN > batch.size_bytes - HEADER_BYTES
    ):
        raise InvalidRecord(
            f"{count} records in {batch.size_bytes - HEADER_BYTES} bytes: the batch is too small"
        )
    if is_client and batch.attributes & CONTROL_FLAG:
        raise InvalidRecord("Clients are not allowed to write control records")
    if batch.producer_id != NO_PRODUCER_ID:
        _check_producer(batch, is_client=is_client)
    elif batch.attributes & TRANSACTIONAL_FLAG:
        raise InvalidRecord("transactional batch without a producer id")


def _check_producer(batch: RecordBatch, *, is_client: bool) -> None:
    """Kafka accepts some invalid producer fields here, and its cleaner fails on them later."""
    if batch.producer_id < NO_PRODUCER_ID:
        raise InvalidRecord(f"invalid producer id {batch.producer_id}")
    if is_client and batch.base_sequence < 0:
        raise InvalidRecord(
            f"invalid sequence {batch.base_sequence} of producer {batch.producer_id}"
        )
    if batch.producer_epoch < 0:
        raise InvalidProducerEpoch(
            f"invalid epoch {batch.producer_epoch} of producer {batch.producer_id}"
        )


def _needs_recompression(batch: RecordBatch, codec: Codec) -> bool:
    """Markers are never compressed, because every reader parses them."""
    return batch.attributes & _CODEC_BITS != codec and not batch.attributes & CONTROL_FLAG


def _validate_and_set_timestamp(batch: RecordBatch, rules: AppendRules, now_ms: int) -> None:
    if _needs_record_validation(batch, rules):
        max_timestamp = validate_records(batch, rules, now_ms=now_ms)
        if not rules.is_log_append_time:
            batch.set_max_timestamp(max_timestamp, TimestampType.CREATE_TIME)
    if rules.is_log_append_time:
        batch.set_max_timestamp(now_ms, TimestampType.LOG_APPEND_TIME)


def _needs_record_validation(batch: RecordBatch, rules: AppendRules) -> bool:
    if rules.requires_record_validation or batch.attributes & LOG_APPEND_TIME_FLAG:
        return True
    is_uncompressed = not batch.attributes & _CODEC_BITS
    if is_uncompressed and not _first_record_fits(batch.view, batch.size_bytes, batch.count):
        return True  # to find the exact error
    # The base timestamp is that of the first record.  Until 2025 Sarama sent a max timestamp of -1.
    # The broker corrects it, as Kafka does, because lookups by timestamp would miss such batches.
    return batch.max_timestamp < batch.base_timestamp and not rules.is_log_append_time


def _rewrite(batches: Sequence[AnyBatch], rules: AppendRules, now_ms: int) -> RecordBatch:
    for batch in batches:
        if rules.requires_record_validation or batch.attributes & LOG_APPEND_TIME_FLAG:
            validate_records(batch, rules, now_ms=now_ms)
    fields = BatchFields(
        codec=batches[0].codec if rules.codec is None else rules.codec,
        level=rules.compression_level,
        append_time_ms=now_ms if rules.is_log_append_time else None,
    )
    try:
        converted = rebuild_for_append(batches, fields)
    except CorruptMessage as error:
        raise validation_error_for(error) from error
    rewritten = RecordBatch(converted.buffer)
    if rewritten.size_bytes > rules.max_message_bytes:
        raise _too_large_error(rewritten, rules)
    return rewritten
