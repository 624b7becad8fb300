"""Batches of magic 2: read from any client, patched in place, rejected if invalid."""

from struct import pack_into

import pytest

from odradek.protocol.errors import CorruptMessage, DecodeError
from odradek.protocol.records.batch import (
    HEADER_BYTES,
    NO_SEQUENCE,
    Batches,
    RecordBatch,
    batches_in,
    increment_sequence,
    whole_batch_bytes,
)
from odradek.protocol.records.compression import Codec, compress
from odradek.protocol.records.record import Header, Record, TimestampType
from tests.support.batches import batch_around, batch_of, with_checksum
from tests.support.java_batches import JAVA_BATCHES, records_from
from tests.support.record_peers import AiokafkaBuilder, KafkaPythonBuilder

THREE_RECORDS = [
    Record(500, 1000, b"key", b"value", (Header("h", b"x"), Header("i", None))),
    Record(501, 990, None, b""),
    Record(503, 1700, b"", None),
]
FIELDS = {
    "base_offset": 500,
    "partition_leader_epoch": 8,
    "producer_id": 123_456_789_012,
    "producer_epoch": 7,
    "base_sequence": 90,
}


def test_header_is_read_in_place():
    batch = RecordBatch(batch_of(*THREE_RECORDS, **FIELDS))
    assert batch.base_offset == 500
    assert batch.partition_leader_epoch == 8
    assert batch.last_offset_delta == 3
    assert batch.last_offset == 503
    assert batch.next_offset == 504
    assert batch.base_timestamp == 1000
    assert batch.max_timestamp == 1700
    assert batch.producer_id == 123_456_789_012
    assert batch.has_producer_id
    assert batch.producer_epoch == 7
    assert batch.base_sequence == 90
    assert batch.last_sequence == 93
    assert batch.count == 3
    assert batch.codec is Codec.NONE
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert not batch.is_transactional
    assert not batch.is_control
    assert batch.delete_horizon_ms is None


@pytest.mark.parametrize("name", ["plain", "gzip", "snappy", "lz4", "zstd", "zstd_level_22"])
def test_batches_of_the_java_client_are_read(name):
    batch = RecordBatch(JAVA_BATCHES[name])
    batch.check_crc()
    assert list(batch) == records_from(0)


def test_transactional_batch_of_the_java_client_is_read():
    batch = RecordBatch(JAVA_BATCHES["transactional"])
    assert batch.is_valid()
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch) == (77, 3)
    assert batch.base_sequence == 2_147_483_600
    assert batch.last_sequence == 252
    assert batch.partition_leader_epoch == 9
    assert list(batch) == records_from(5_000_000_000)


def test_append_time_replaces_the_record_timestamps():
    batch = RecordBatch(JAVA_BATCHES["append_time"])
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in batch} == {123_456}


def test_delete_horizon_is_stored_as_the_base_timestamp():
    batch = RecordBatch(JAVA_BATCHES["delete_horizon"])
    assert batch.delete_horizon_ms == 500_000
    assert list(batch) == records_from(0)


def test_records_without_a_timestamp_have_minus_one():
    assert list(RecordBatch(JAVA_BATCHES["no_timestamp"])) == [Record(0, -1, b"k", b"v")]


def test_compacted_batch_keeps_its_last_offset():
    batch = RecordBatch(JAVA_BATCHES["last_offset"])
    assert batch.last_offset == 1000
    assert list(batch) == records_from(0)


@pytest.mark.parametrize("name", ["empty", "empty_control"])
def test_batch_that_compaction_emptied_is_read(name):
    batch = RecordBatch(JAVA_BATCHES[name])
    assert batch.is_valid()
    assert (batch.count, batch.base_offset, batch.last_offset) == (0, 100, 110)
    assert list(batch) == []


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("peer", [AiokafkaBuilder, KafkaPythonBuilder])
def test_batches_of_other_clients_are_read(codec, peer):
    builder = peer(
        magic=2,
        compression_type=codec,
        is_transactional=True,
        producer_id=9,
        producer_epoch=2,
        base_sequence=5,
        batch_size=1_000_000,
    )
    expected = [
        Record(0, 1000, b"key", b"value " * 40, (Header("h", b"x"), Header("i", None))),
        Record(1, 900, None, b""),
        Record(2, 1000 + 2**33, b"", None, (Header("", b""),)),
    ]
    for record in expected:
        builder.append(
            record.offset, record.timestamp, record.key, record.value, list(record.headers)
        )
    batch = RecordBatch(builder.build())
    batch.check_crc()
    assert batch.codec is codec
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 2, 5)
    assert batch.max_timestamp == 1000 + 2**33
    assert list(batch) == expected


@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("codec", Codec)
def test_batch_is_read_at_any_position_of_any_buffer(buffer_type, codec):
    raw = batch_of(*THREE_RECORDS, codec=codec, **FIELDS)
    batch = RecordBatch(buffer_type(b"before" + raw + b"after"), 6)
    assert batch.is_valid()
    assert bytes(batch.view) == raw
    assert batch.size_bytes == len(raw)
    assert list(batch) == THREE_RECORDS


def test_records_do_not_change_with_the_buffer():
    raw = batch_of(b"first")
    record = next(iter(RecordBatch(raw)))
    raw[:] = bytes(len(raw))
    assert record.value == b"first"


def test_records_can_be_read_more_than_once():
    batch = RecordBatch(batch_of(*THREE_RECORDS, codec=Codec.ZSTD, **FIELDS))
    assert list(batch) == list(batch) == THREE_RECORDS


def test_offset_and_epoch_are_patched_outside_the_checksum():
    raw = bytearray(b"..") + batch_of(*THREE_RECORDS, **FIELDS)
    batch = RecordBatch(raw, 2)
    batch.assign_offsets(2**40, 99)
    reread = RecordBatch(raw, 2)
    assert (reread.base_offset, reread.partition_leader_epoch) == (2**40, 99)
    assert (batch.base_offset, batch.partition_leader_epoch) == (2**40, 99)
    assert reread.is_valid()
    assert [record.offset for record in batch] == [2**40, 2**40 + 1, 2**40 + 3]


@pytest.mark.parametrize("codec", Codec)
def test_append_time_is_patched_with_its_checksum(codec):
    raw = bytearray(b"..") + batch_of(*THREE_RECORDS, codec=codec, **FIELDS) + b".."
    batch = RecordBatch(raw, 2)
    batch.set_max_timestamp(5555, TimestampType.LOG_APPEND_TIME)
    for view in (batch, RecordBatch(raw, 2)):
        assert view.is_valid()
        assert view.codec is codec
        assert view.timestamp_type is TimestampType.LOG_APPEND_TIME
        assert {record.timestamp for record in view} == {5555}


def test_create_time_is_patched_back():
    raw = batch_of(*THREE_RECORDS, append_time_ms=5555, **FIELDS)
    RecordBatch(raw).set_max_timestamp(1700, TimestampType.CREATE_TIME)
    assert raw == batch_of(*THREE_RECORDS, **FIELDS)


def test_unchanged_timestamp_does_not_update_the_checksum():
    raw = batch_of(*THREE_RECORDS, **FIELDS)
    raw[17] ^= 1
    RecordBatch(raw).set_max_timestamp(1700, TimestampType.CREATE_TIME)
    assert not RecordBatch(raw).is_valid()


def test_wrong_checksum_is_reported_and_rejected():
    raw = batch_of(*THREE_RECORDS, **FIELDS)
    raw[-1] ^= 1
    batch = RecordBatch(raw)
    assert not batch.is_valid()
    with pytest.raises(CorruptMessage, match="checksum"):
        batch.check_crc()


@pytest.mark.parametrize(
    ("sequence", "count", "expected"),
    [
        (0, 0, 0),
        (5, 3, 8),
        (2**31 - 1, 0, 2**31 - 1),
        (2**31 - 1, 1, 0),
        (2**31 - 3, 5, 2),
        (2**31 - 1, 2**31 - 1, 2**31 - 2),
    ],
)
def test_sequences_wrap_to_zero(sequence, count, expected):
    assert increment_sequence(sequence, count) == expected


def test_batch_without_a_producer_id_has_no_sequences():
    batch = RecordBatch(batch_of(b"a", b"b"))
    assert not batch.has_producer_id
    assert batch.base_sequence == batch.last_sequence == NO_SEQUENCE


def header_with(**positions: int) -> bytes:
    raw = batch_of(*THREE_RECORDS, **FIELDS)
    formats = {
        "length": (">i", 8),
        "magic": (">b", 16),
        "last_delta": (">i", 23),
        "count": (">i", 57),
    }
    for name, value in positions.items():
        pack_into(formats[name][0], raw, formats[name][1], value)
    return with_checksum(raw)


@pytest.mark.parametrize("magic", [-1, 0, 1, 3, 127])
def test_another_magic_is_rejected(magic):
    with pytest.raises(CorruptMessage, match=f"magic {magic}"):
        RecordBatch(header_with(magic=magic))


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 48, 200, 2**31 - 1])
def test_length_that_does_not_match_the_buffer_is_rejected(length):
    with pytest.raises(CorruptMessage):
        RecordBatch(header_with(length=length))


def test_negative_count_or_delta_is_rejected():
    with pytest.raises(CorruptMessage, match="-1 records"):
        RecordBatch(header_with(count=-1))
    with pytest.raises(CorruptMessage, match="offset delta -1"):
        RecordBatch(header_with(last_delta=-1))


@pytest.mark.parametrize("count", [0, 2, 4, 2**31 - 1])
def test_wrong_count_is_rejected(count):
    with pytest.raises(CorruptMessage):
        list(RecordBatch(header_with(count=count)))


def test_last_delta_below_the_last_record_is_rejected():
    with pytest.raises(CorruptMessage, match="offset delta 3"):
        list(RecordBatch(header_with(last_delta=2)))


@pytest.mark.parametrize("number", [5, 6, 7])
def test_unknown_codec_is_rejected_when_records_are_read(number):
    batch = RecordBatch(batch_around(b"", count=0, last_delta=0, codec=number))
    with pytest.raises(CorruptMessage, match="unknown codec"):
        list(batch)


def test_compressed_records_are_bounded():
    batch = RecordBatch(batch_of(bytes(100_000), codec=Codec.GZIP))
    assert len(list(batch.records(max_bytes=101_000))) == 1
    with pytest.raises(CorruptMessage):
        batch.records(max_bytes=100_000)


def test_empty_compressed_block_has_no_records():
    packed = compress(Codec.ZSTD, b"")
    assert list(RecordBatch(batch_around(packed, count=0, last_delta=0, codec=Codec.ZSTD))) == []


def test_every_truncation_is_rejected():
    raw = bytes(batch_of(*THREE_RECORDS, **FIELDS))
    for end in range(len(raw)):
        with pytest.raises(CorruptMessage):
            RecordBatch(raw[:end])


@pytest.mark.parametrize("codec", Codec)
def test_every_truncation_of_the_records_is_rejected(codec):
    records = bytes(batch_of(*THREE_RECORDS, codec=codec, **FIELDS))[HEADER_BYTES:]
    for end in range(len(records)):
        batch = batch_around(records[:end], count=3, last_delta=3, codec=codec)
        with pytest.raises(CorruptMessage):
            list(RecordBatch(batch))


@pytest.mark.parametrize("codec", Codec)
def test_checksum_detects_every_changed_byte_that_it_covers(codec):
    raw = bytes(batch_of(*THREE_RECORDS, codec=codec, **FIELDS))
    for position in range(len(raw)):
        damaged = raw[:position] + bytes([raw[position] ^ 0x55]) + raw[position + 1 :]
        if position < 8 or 12 <= position < 16:
            assert RecordBatch(damaged).is_valid()
        else:
            with pytest.raises(DecodeError):
                RecordBatch(damaged).check_crc()


@pytest.mark.parametrize("codec", Codec)
def test_changed_byte_with_a_valid_checksum_is_read_safely_or_rejected(codec):
    raw = bytes(batch_of(*THREE_RECORDS, codec=codec, **FIELDS))
    for position in range(len(raw)):
        for flip in (0x01, 0x02, 0x40, 0x80, 0xFF):
            damaged = bytearray(raw)
            damaged[position] ^= flip
            try:
                batch = RecordBatch(with_checksum(damaged))
                offsets = [record.offset for record in batch]
            except CorruptMessage:
                continue
            assert len(offsets) == batch.count
            assert all(batch.base_offset <= offset <= batch.last_offset for offset in offsets)


def test_consecutive_batches_are_read():
    first, second = batch_of(b"a", b"b"), batch_of(b"c", base_offset=2, codec=Codec.LZ4)
    batches = batches_in(first + second)
    assert [record.value for batch in batches for record in batch] == [b"a", b"b", b"c"]
    assert batches.partial_bytes == 0


def test_partial_batch_at_the_end_is_counted_but_not_read():
    first, second = bytes(batch_of(b"a")), bytes(batch_of(b"b"))
    for end in range(len(second)):
        batches = batches_in(first + second[:end])
        assert len(list(batches)) == 1
        assert batches.partial_bytes == end
        assert batches.position == len(first)


def test_empty_buffer_has_no_batches():
    assert list(batches_in(b"")) == []


def test_batch_too_short_for_any_magic_is_rejected():
    with pytest.raises(CorruptMessage, match="length 13"):
        whole_batch_bytes(header_with(length=13), 0)


@pytest.mark.parametrize("magic", [-1, 3])
def test_unknown_magic_is_rejected(magic):
    with pytest.raises(CorruptMessage, match="magic"):
        list(batches_in(header_with(magic=magic)))


def test_batches_can_use_another_batch_class():
    old, new = header_with(magic=1), bytes(batch_of(b"a"))
    batches = Batches(old + new, lambda buffer, position: buffer[position + 16])
    assert list(batches) == [1, 2]


def test_repr_shows_the_offsets():
    assert "offsets 500 to 503" in repr(RecordBatch(batch_of(*THREE_RECORDS, **FIELDS)))
