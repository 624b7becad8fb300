"""Is a record set that a leader shall append acceptable, and which batch will be written?

Faults are looked for in Kafka's order, so that a set with several gets the error Kafka gives it:

    the bytes     a base offset of 0 (clients), the size, the checksum, a known codec
    the set       one batch of magic 2 or one wrapper, or uncompressed messages of one old magic
    the header    as many records as offsets, and a producer that makes sense
    the first     an uncompressed record that fits, and fills the batch if it is alone
    the records   only where something depends on them: see ``_must_walk``

Old formats, and batches with another codec than the topic's, are rewritten as one batch of magic 2,
and measured again.  What is not known of a batch whose records nobody looked at stands in
docs/validation.md.

Invariant: a batch that needs no rewriting is neither decompressed nor copied; what comes out lies
in the memory that came in.
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
from odradek.protocol.records.conversion import rebuilt_for_append
from odradek.protocol.records.crc32c import crc32c
from odradek.protocol.records.record import TimestampType
from odradek.protocol.records.record_set import AnyBatch, batches_of_any_magic
from odradek.protocol.varint import Buffer, read_varint
from odradek.storage.admission.errors import refusal_of
from odradek.storage.admission.record_checks import checked_max_timestamp
from odradek.storage.admission.rules import AppendRules
from odradek.storage.producers.append import AppendOrigin

_COORDINATOR = AppendOrigin.COORDINATOR
_CLIENT = AppendOrigin.CLIENT  # an attribute of an enum takes four times as long to look up
_CODEC_BITS = 0x07
_ZSTD = int(Codec.ZSTD)
_RECORD_BYTES_MIN = 7
_MESSAGE_BYTES_MIN = 26
_MESSAGES_COUNTED_MAX = 1000
#: More records than anybody reads while others wait.
UNTOLD_COUNT = 2**31
#: So many bytes, 64, take as long as a record, whether they are packed or unpacked.
_HELD_BITS = 6
_FIRST_VERSION_OF_MAGIC_2 = 3
FIRST_VERSION_OF_ZSTD = 7


def check_request(records: Buffer, *, version: int) -> None:
    """What a Produce request of this version may carry; the oldest carry whatever a log takes."""
    if version < _FIRST_VERSION_OF_MAGIC_2:
        return
    size_bytes = whole_batch_bytes(records, 0)
    if not size_bytes:
        raise InvalidRecord("no whole batch")
    if records[MAGIC_POSITION] != MAGIC:
        raise InvalidRecord(f"magic {records[MAGIC_POSITION]} in a request of version {version}")
    if version < FIRST_VERSION_OF_ZSTD and _codec_bits_at(records) == _ZSTD:
        raise UnsupportedCompressionType(f"zstd in a request of version {version}")
    if size_bytes < len(records) and whole_batch_bytes(records, size_bytes):
        raise InvalidRecord("more than one batch")


def _codec_bits_at(records: Buffer) -> int:
    return records[ATTRIBUTES_POSITION + 1] & _CODEC_BITS


def reading_cost(records: Buffer, rules: AppendRules) -> int:
    """How many records ``valid_batch`` would look at, as far as headers tell.

    Bytes that it would pack or unpack count as records, as many as take as long.
    """
    if len(records) <= ATTRIBUTES_POSITION:
        return 0
    if records[MAGIC_POSITION] != MAGIC:
        return _messages_in(records) + packing_cost(0, len(records))
    try:
        batch = RecordBatch(records)
    except CorruptMessage:
        return 0
    if not batch.count or batch.size_bytes > rules.max_message_bytes:
        return 0
    is_other = rules.codec is not None and _has_other_codec(batch, rules.codec)
    if is_other or (batch.attributes & _CODEC_BITS and _must_walk(batch, rules)):
        return batch.count + packing_cost(batch.attributes, batch.size_bytes)
    return batch.count if _must_walk(batch, rules) else 0


def packing_cost(attributes: int, size_bytes: int) -> int:
    """At least: what is packed may hold a thousand times as much."""
    return size_bytes >> (4 if attributes & _CODEC_BITS else _HELD_BITS)


def holding_cost(records: Buffer, *, most: int) -> int:
    """What comes to the ``reading_cost`` of one batch by how much it really holds.

    It has to be unpacked to be known, but no further than ``most`` is reached; beyond that, and if
    it cannot be unpacked, it is UNTOLD_COUNT.
    """
    if records[MAGIC_POSITION] != MAGIC or not _codec_bits_at(records):
        return 0
    batch = RecordBatch(records)
    packed = batch.view[HEADER_BYTES : batch.size_bytes]
    max_bytes = min(most << _HELD_BITS, DECOMPRESSED_BYTES_MAX)
    try:
        return len(decompress(batch.codec, packed, max_bytes=max_bytes)) >> _HELD_BITS
    except CorruptMessage:
        return UNTOLD_COUNT


def _messages_in(records: Buffer) -> int:
    """Of magic 0 or 1; how many a wrapper holds, it does not tell."""
    most = len(records) // _MESSAGE_BYTES_MIN
    if most > _MESSAGES_COUNTED_MAX:
        return most
    count = 0
    try:
        for message in batches_of_any_magic(records):
            if isinstance(message, RecordBatch) or message.attributes & _CODEC_BITS:
                return UNTOLD_COUNT
            count += 1
    except CorruptMessage:
        return count  # nothing beyond will be read
    return count


def valid_batch(
    records: Buffer, rules: AppendRules, *, origin: AppendOrigin, now_ms: int
) -> RecordBatch | None:
    """What is to be written, once it has its offset and leader epoch; None if no batch is whole.

    It lies in ``records`` itself unless it had to be rewritten.
    """
    ready = None
    if rules.takes_usual_batches and origin is _CLIENT:
        ready = _usual_batch(records, rules)
    elif origin is _COORDINATOR and not rules.is_append_time:
        ready = _own_batch(records, rules)
    if ready is not None:
        return ready
    if not whole_batch_bytes(records, 0):
        return None
    if records[MAGIC_POSITION] != MAGIC:
        batch = _rewritten(_intact_messages(records, rules), rules, now_ms)
    else:
        is_client = origin is _CLIENT
        batch = _intact_batch(records, rules, is_client=is_client)
        _check_header(batch, is_client=is_client)
        if rules.codec is not None and _has_other_codec(batch, rules.codec):
            batch = _rewritten([batch], rules, now_ms)
        else:
            _check_and_stamp(batch, rules, now_ms)
    if batch.size_bytes > rules.segment_bytes:
        raise RecordListTooLarge(f"{batch.size_bytes} bytes, for segments of {rules.segment_bytes}")
    return batch


def _usual_batch(records: Buffer, rules: AppendRules) -> RecordBatch | None:
    """The batch, if it is what producers nearly always send; None lets it go the long way.

    One condition instead of a dozen calls, which would take longer than the checksum of 16 KB.
    """
    try:
        batch = RecordBatch(records)
    except CorruptMessage:
        return None
    size_bytes, attributes, count = batch.size_bytes, batch.attributes, batch.count
    codec_bits = attributes & ~TRANSACTIONAL_FLAG  # and nothing else, if it is usual
    is_anonymous = batch.producer_id == NO_PRODUCER_ID and attributes == codec_bits
    is_usual = (
        batch.base_offset == 0
        and size_bytes == len(records)
        and size_bytes <= rules.max_message_bytes
        and size_bytes <= rules.segment_bytes
        and 0 <= codec_bits <= _ZSTD  # signed: bit 15 makes it negative, and hides all others
        and count == batch.last_offset_delta + 1
        and (codec_bits or _first_record_fits(records, size_bytes, count))
        and batch.max_timestamp >= batch.base_timestamp
        and (is_anonymous or _has_producer(batch))
    )
    if not is_usual:
        return None
    batch.check_crc()
    return batch


def _own_batch(records: Buffer, rules: AppendRules) -> RecordBatch | None:
    """One that was made in this process a moment ago: only its size is not known to be right.

    None if it has to be packed in another way.
    """
    batch = RecordBatch(records)
    if rules.codec is not None and _has_other_codec(batch, rules.codec):
        return None
    if batch.size_bytes > rules.max_message_bytes:
        raise _too_large(batch, rules)
    if batch.size_bytes > rules.segment_bytes:
        raise RecordListTooLarge(f"{batch.size_bytes} bytes, for segments of {rules.segment_bytes}")
    return batch


def _first_record_fits(records: Buffer, size_bytes: int, count: int) -> bool:
    """Whether the length of the first record, not compressed, leaves room for all others.

    Takes less than 1 us, and so it is not done for all: a walk takes as much for each record.
    """
    rest_bytes = (count - 1) * _RECORD_BYTES_MIN
    if size_bytes - HEADER_BYTES < rest_bytes + _RECORD_BYTES_MIN:
        return False
    length, position = records[HEADER_BYTES], HEADER_BYTES + 1
    if length > 0x7F:
        second, position = records[position], position + 1
        if second > 0x7F:
            return _long_record_fits(records, size_bytes - rest_bytes, is_alone=count == 1)
        length = length & 0x7F | second << 7
    end = position + (length >> 1)
    # Zig-zag: what is odd is negative.
    return not length & 1 and (end == size_bytes if count == 1 else end + rest_bytes <= size_bytes)


def _long_record_fits(records: Buffer, end_max: int, *, is_alone: bool) -> bool:
    try:
        length, position = read_varint(records, HEADER_BYTES)
    except DecodeError:
        return False
    end = position + length
    return length >= 0 and (end == end_max if is_alone else end <= end_max)


def _has_producer(batch: RecordBatch) -> bool:
    return batch.producer_id >= 0 and batch.producer_epoch >= 0 and batch.base_sequence >= 0


def _intact_batch(records: Buffer, rules: AppendRules, *, is_client: bool) -> RecordBatch:
    """The one batch of magic 2 in ``records``."""
    try:
        batch = RecordBatch(records)
    except CorruptMessage as error:
        raise _header_refusal(records, error) from error
    if is_client and batch.base_offset != 0:
        raise InvalidRecord(f"base offset {batch.base_offset}, which is not a client's to choose")
    _check_bytes(batch, rules)
    if batch.size_bytes < len(records) and whole_batch_bytes(records, batch.size_bytes):
        raise InvalidRecord("more than one batch")
    return batch


def _header_refusal(records: Buffer, error: CorruptMessage) -> CorruptMessage | InvalidRecord:
    """Where the checksum is right, the bytes are what was sent, and not corrupt."""
    batch = memoryview(records)[: whole_batch_bytes(records, 0)]
    checksum = int.from_bytes(batch[CHECKSUM_POSITION:ATTRIBUTES_POSITION], "big")
    if len(batch) >= HEADER_BYTES and checksum == crc32c(batch[ATTRIBUTES_POSITION:]):
        return InvalidRecord(str(error))
    return error


def _intact_messages(records: Buffer, rules: AppendRules) -> list[AnyBatch]:
    """The messages of magic 0 or 1 in ``records``."""
    messages: list[AnyBatch] = []
    for message in batches_of_any_magic(records):
        _check_bytes(message, rules)
        messages.append(message)
    return messages


def _check_bytes(batch: AnyBatch, rules: AppendRules) -> None:
    if batch.size_bytes > rules.max_message_bytes:
        raise _too_large(batch, rules)
    batch.check_crc()
    if batch.attributes & _CODEC_BITS > _ZSTD:
        raise UnsupportedCompressionType(f"codec {batch.attributes & _CODEC_BITS}")


def _too_large(batch: AnyBatch, rules: AppendRules) -> MessageTooLarge:
    return MessageTooLarge(f"{batch.size_bytes} bytes, more than {rules.max_message_bytes}")


def _check_header(batch: RecordBatch, *, is_client: bool) -> None:
    count = batch.count
    if count != batch.last_offset_delta + 1:
        raise InvalidRecord(f"{count} records for {batch.last_offset_delta + 1} offsets")
    if (
        not batch.attributes & _CODEC_BITS
        and count * _RECORD_BYTES_MIN > batch.size_bytes - HEADER_BYTES
    ):
        raise InvalidRecord(f"{count} records in {batch.size_bytes - HEADER_BYTES} bytes")
    if is_client and batch.attributes & CONTROL_FLAG:
        raise InvalidRecord("a control batch, which only coordinators write")
    if batch.producer_id != NO_PRODUCER_ID:
        _check_producer(batch, is_client=is_client)
    elif batch.attributes & TRANSACTIONAL_FLAG:
        raise InvalidRecord("a transactional batch without a producer id")


def _check_producer(batch: RecordBatch, *, is_client: bool) -> None:
    """Kafka takes some of what is refused here; its cleaner then stumbles over it."""
    if batch.producer_id < NO_PRODUCER_ID:
        raise InvalidRecord(f"producer id {batch.producer_id}")
    if is_client and batch.base_sequence < 0:
        raise InvalidRecord(f"sequence {batch.base_sequence} of producer {batch.producer_id}")
    if batch.producer_epoch < 0:
        raise InvalidProducerEpoch(f"epoch {batch.producer_epoch} of producer {batch.producer_id}")


def _has_other_codec(batch: RecordBatch, codec: Codec) -> bool:
    """Markers are never compressed: every reader has to look into them."""
    return batch.attributes & _CODEC_BITS != codec and not batch.attributes & CONTROL_FLAG


def _check_and_stamp(batch: RecordBatch, rules: AppendRules, now_ms: int) -> None:
    if _must_walk(batch, rules):
        max_timestamp = checked_max_timestamp(batch, rules, now_ms=now_ms)
        if not rules.is_append_time:
            batch.set_max_timestamp(max_timestamp, TimestampType.CREATE_TIME)
    if rules.is_append_time:
        batch.set_max_timestamp(now_ms, TimestampType.LOG_APPEND_TIME)


def _must_walk(batch: RecordBatch, rules: AppendRules) -> bool:
    if rules.walks_records or batch.attributes & LOG_APPEND_TIME_FLAG:
        return True
    is_plain = not batch.attributes & _CODEC_BITS
    if is_plain and not _first_record_fits(batch.view, batch.size_bytes, batch.count):
        return True  # and find out what is wrong
    # The base is the first record's.  Sarama left the largest at -1 until 2025, and as in Kafka the
    # broker puts it right, or such batches could not be found by timestamp.
    return batch.max_timestamp < batch.base_timestamp and not rules.is_append_time


def _rewritten(batches: Sequence[AnyBatch], rules: AppendRules, now_ms: int) -> RecordBatch:
    for batch in batches:
        if rules.walks_records or batch.attributes & LOG_APPEND_TIME_FLAG:
            checked_max_timestamp(batch, rules, now_ms=now_ms)
    fields = BatchFields(
        codec=batches[0].codec if rules.codec is None else rules.codec,
        level=rules.level,
        append_time_ms=now_ms if rules.is_append_time else None,
    )
    try:
        converted = rebuilt_for_append(batches, fields)
    except CorruptMessage as damage:
        raise refusal_of(damage) from damage
    rewritten = RecordBatch(converted.buffer)
    if rewritten.size_bytes > rules.max_message_bytes:
        raise _too_large(rewritten, rules)
    return rewritten
