"""Messages and wrappers of magic 0 and 1."""

import pytest

from odradek.protocol.errors import CorruptMessage, EncodeError, UnsupportedCompressionType
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.compression import Codec, compress
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.protocol.records.legacy_builder import LegacyBuilder, LegacyFormat, build_legacy_set
from odradek.protocol.records.legacy_lz4 import with_broken_checksum, with_correct_checksum, xxh32
from odradek.protocol.records.record import Header, Record, TimestampType
from odradek.protocol.records.record_set import batches_of_any_magic
from tests.support.batches import batch_of
from tests.support.legacy_messages import FORMAT_NAMES, FORMATS, message, wrapper

RECORDS = [
    Record(10, 1000, b"k", b"v"),
    Record(11, 3000, None, b""),
    Record(14, 2000, b"", None),
]


def records_in(buffer):
    return [record for batch in batches_of_any_magic(buffer) for record in batch]


@pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=FORMAT_NAMES)
def test_record_set_survives_a_round_trip(magic, codec):
    encoded = build_legacy_set(RECORDS, LegacyFormat(magic=magic, codec=codec))
    timestamps = [1000, 3000, 2000] if magic == 1 else [-1, -1, -1]
    assert records_in(encoded) == [
        record._replace(timestamp=timestamp)
        for record, timestamp in zip(RECORDS, timestamps, strict=True)
    ]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_log_append_time_applies_to_all_records(codec):
    legacy_format = LegacyFormat(magic=1, codec=codec, append_time_ms=9000)
    assert [
        record.timestamp for record in records_in(build_legacy_set(RECORDS, legacy_format))
    ] == [9000] * 3


def test_message_is_read_from_the_middle_of_a_buffer():
    first, second = message(0, b"first", offset=6), message(1, b"second", offset=7, timestamp=5)
    view = LegacyBatch(first + second + b"rest", len(first))
    assert view.view == second
    assert view.size_bytes == len(second)
    assert (view.magic, view.base_offset, view.last_offset, view.next_offset) == (1, 7, 7, 8)
    assert (view.max_timestamp, view.timestamp_type) == (5, TimestampType.CREATE_TIME)
    assert view.is_valid()
    assert list(view) == [Record(7, 5, None, b"second")]


def test_magic_0_has_no_timestamp():
    view = LegacyBatch(message(0, b"v", attributes=0x08))
    assert (view.max_timestamp, view.timestamp_type) == (-1, TimestampType.CREATE_TIME)


def test_legacy_messages_have_no_producer_and_no_leader_epoch():
    view = LegacyBatch(message(1, b"v"))
    assert (view.producer_id, view.producer_epoch, view.base_sequence) == (-1, -1, -1)
    assert (view.last_sequence, view.partition_leader_epoch) == (-1, -1)
    assert not view.has_producer_id
    assert not view.is_transactional
    assert not view.is_control
    assert view.delete_horizon_ms is None


@pytest.mark.parametrize("magic", [0, 1])
def test_wrapper_has_the_base_offset_and_the_count_of_its_records(magic):
    legacy_format = LegacyFormat(magic=magic, codec=Codec.SNAPPY)
    view = LegacyBatch(build_legacy_set(RECORDS, legacy_format))
    assert (view.base_offset, view.last_offset, view.count) == (10, 14, 3)
    assert view.max_timestamp == (3000 if magic == 1 else -1)


def test_records_of_a_magic_1_wrapper_have_relative_offsets():
    view = LegacyBatch(build_legacy_set(RECORDS, LegacyFormat(magic=1, codec=Codec.GZIP)))
    view.set_last_offset(104)
    assert view.is_valid()
    assert [record.offset for record in LegacyBatch(view.buffer)] == [100, 101, 104]


def test_wrapper_at_offset_zero_has_records_from_offset_zero():
    inner = message(1, b"a", offset=0) + message(1, b"b", offset=1)
    assert [record.offset for record in LegacyBatch(wrapper(1, inner))] == [0, 1]


def test_records_of_a_magic_0_wrapper_have_absolute_offsets():
    inner = message(0, b"a", offset=5) + message(0, b"b", offset=5)
    assert [record.offset for record in LegacyBatch(wrapper(0, inner, offset=77))] == [5, 5]


def test_log_append_time_of_a_wrapper_overrides_the_record_timestamps():
    view = LegacyBatch(build_legacy_set(RECORDS, LegacyFormat(magic=1, codec=Codec.LZ4)))
    view.set_max_timestamp(7777, TimestampType.LOG_APPEND_TIME)
    reread = LegacyBatch(view.buffer)
    reread.check_crc()
    assert (reread.codec, reread.timestamp_type) == (Codec.LZ4, TimestampType.LOG_APPEND_TIME)
    assert [record.timestamp for record in reread] == [7777] * 3


def test_unchanged_timestamp_does_not_change_the_bytes():
    buffer = bytearray(message(1, b"v", timestamp=5))
    buffer[12] ^= 1
    damaged = bytes(buffer)
    LegacyBatch(buffer).set_max_timestamp(5, TimestampType.CREATE_TIME)
    assert buffer == damaged


def test_wrong_checksum_is_detected():
    buffer = bytearray(message(1, b"v"))
    buffer[-1] ^= 1
    view = LegacyBatch(buffer)
    assert not view.is_valid()
    with pytest.raises(CorruptMessage, match="checksum"):
        view.check_crc()


def test_repr_shows_magic_offset_and_size():
    assert repr(LegacyBatch(message(1, b"v", offset=3))) == (
        "LegacyBatch(magic 1, last offset 3, 35 bytes, attributes 0x00)"
    )


def test_mixed_record_set_is_read_in_order_up_to_a_partial_batch():
    whole = message(0, b"a") + batch_of(b"b", base_offset=1) + wrapper(1, message(1, b"c"))
    tail = message(1, b"cut short")[:-1]
    batches = batches_of_any_magic(whole + tail)
    assert [type(batch) for batch in batches] == [LegacyBatch, RecordBatch, LegacyBatch]
    assert batches.position == len(whole)
    assert batches.partial_bytes == len(tail)


def test_empty_record_set_has_no_message():
    assert build_legacy_set([], LegacyFormat(magic=1, codec=Codec.GZIP)) == b""


@pytest.mark.parametrize(
    "record",
    [
        Record(14, 0, None, b"an offset again"),
        Record(2**63, 0, None, b"an offset of 65 bits"),
        Record(15, -2, None, b"a time before none"),
        Record(15, 2**63, None, b"a time of 65 bits"),
        Record(15, 0, None, b"a header", (Header("h", None),)),
    ],
)
def test_record_that_the_format_does_not_support_is_rejected(record):
    builder = LegacyBuilder(LegacyFormat(magic=1))
    for before in RECORDS:
        builder.append(before)
    with pytest.raises(EncodeError):
        builder.append(record)
    assert builder.count == 3


@pytest.mark.parametrize("content", ["text", 5, memoryview(b"abcd").cast("h")])
@pytest.mark.parametrize("field", ["key", "value"])
def test_error_names_a_field_that_is_not_bytes(field, content):
    builder = LegacyBuilder(LegacyFormat(magic=1))
    with pytest.raises(EncodeError, match=f"{field}: .* is not bytes"):
        builder.append(Record(0, 1, b"k", b"v")._replace(**{field: content}))


def test_invalid_compression_level_is_rejected_before_any_record():
    with pytest.raises(EncodeError, match="level: LZ4 has no level 18"):
        LegacyBuilder(LegacyFormat(magic=1, codec=Codec.LZ4, level=18))


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_is_rejected_in_legacy_formats(magic):
    with pytest.raises(UnsupportedCompressionType):
        build_legacy_set(RECORDS, LegacyFormat(magic=magic, codec=Codec.ZSTD))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"abcd", 0xA3643705),
        (b"0123456789abcde", 0x1DBDFA0F),
    ],
)
def test_xxh32_has_its_known_values(source, expected):
    assert xxh32(source) == expected


@pytest.mark.parametrize(
    "checksum", [with_broken_checksum, with_correct_checksum], ids=["old", "right"]
)
def test_both_lz4_header_checksums_are_accepted_in_magic_0(checksum):
    frame = checksum(compress(Codec.LZ4, message(0, b"v", offset=9)))
    assert [r.offset for r in LegacyBatch(message(0, frame, attributes=Codec.LZ4))] == [9]


def test_lz4_frame_with_a_content_size_is_read_in_magic_0():
    import lz4.frame

    frame = lz4.frame.compress(message(0, b"v"), block_linked=False, store_size=True)
    sent = message(0, with_broken_checksum(frame), attributes=Codec.LZ4)
    assert [record.value for record in LegacyBatch(sent)] == [b"v"]


def test_broken_lz4_header_checksum_is_rejected_in_magic_1():
    frame = with_broken_checksum(compress(Codec.LZ4, message(1, b"v")))
    with pytest.raises(CorruptMessage):
        LegacyBatch(message(1, frame, attributes=Codec.LZ4)).records()
