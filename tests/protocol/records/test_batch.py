"""Batches of magic 2: read from anybody, patched in place, refused if they make no sense."""

from struct import pack_into

import pytest

from odradek.protocol.errors import CorruptMessage, DecodeError
from odradek.protocol.records.batch import (
    HEADER_BYTES,
    NO_SEQUENCE,
    Batches,
    RecordBatch,
    batches_in,
    sequence_after,
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


def test_the_header_is_read_in_place():
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
def test_javas_batches_are_read(name):
    batch = RecordBatch(JAVA_BATCHES[name])
    batch.check_crc()
    assert list(batch) == records_from(0)


def test_javas_transactional_batch_is_read():
    batch = RecordBatch(JAVA_BATCHES["transactional"])
    assert batch.is_valid()
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch) == (77, 3)
    assert batch.base_sequence == 2_147_483_600
    assert batch.last_sequence == 252
    assert batch.partition_leader_epoch == 9
    assert list(batch) == records_from(5_000_000_000)


def test_append_time_replaces_what_the_records_say():
    batch = RecordBatch(JAVA_BATCHES["append_time"])
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in batch} == {123_456}


def test_the_delete_horizon_takes_the_place_of_the_base_timestamp():
    batch = RecordBatch(JAVA_BATCHES["delete_horizon"])
    assert batch.delete_horizon_ms == 500_000
    assert list(batch) == records_from(0)


def test_records_without_a_timestamp_have_minus_one():
    assert list(RecordBatch(JAVA_BATCHES["no_timestamp"])) == [Record(0, -1, b"k", b"v")]


def test_a_compacted_batch_keeps_its_last_offset():
    batch = RecordBatch(JAVA_BATCHES["last_offset"])
    assert batch.last_offset == 1000
    assert list(batch) == records_from(0)


@pytest.mark.parametrize("name", ["empty", "empty_control"])
def test_a_batch_that_compaction_emptied_is_read(name):
    batch = RecordBatch(JAVA_BATCHES[name])
    assert batch.is_valid()
    assert (batch.count, batch.base_offset, batch.last_offset) == (0, 100, 110)
    assert list(batch) == []


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("peer", [AiokafkaBuilder, KafkaPythonBuilder])
def test_the_batches_of_other_clients_are_read(codec, peer):
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


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("codec", Codec)
def test_a_batch_may_lie_anywhere_in_any_buffer(kind, codec):
    raw = batch_of(*THREE_RECORDS, codec=codec, **FIELDS)
    batch = RecordBatch(kind(b"before" + raw + b"after"), 6)
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
    batch.number(2**40, 99)
    again = RecordBatch(raw, 2)
    assert (again.base_offset, again.partition_leader_epoch) == (2**40, 99)
    assert (batch.base_offset, batch.partition_leader_epoch) == (2**40, 99)
    assert again.is_valid()
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


def test_what_does_not_change_needs_no_new_checksum():
    raw = batch_of(*THREE_RECORDS, **FIELDS)
    raw[17] ^= 1
    RecordBatch(raw).set_max_timestamp(1700, TimestampType.CREATE_TIME)
    assert not RecordBatch(raw).is_valid()


def test_a_wrong_checksum_is_told_and_refused():
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
    assert sequence_after(sequence, count) == expected


def test_without_a_producer_there_are_no_sequences():
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
def test_another_magic_is_refused(magic):
    with pytest.raises(CorruptMessage, match=f"magic {magic}"):
        RecordBatch(header_with(magic=magic))


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 48, 200, 2**31 - 1])
def test_a_length_that_is_not_there_is_refused(length):
    with pytest.raises(CorruptMessage):
        RecordBatch(header_with(length=length))


def test_a_negative_count_or_delta_is_refused():
    with pytest.raises(CorruptMessage, match="-1 records"):
        RecordBatch(header_with(count=-1))
    with pytest.raises(CorruptMessage, match="offset delta -1"):
        RecordBatch(header_with(last_delta=-1))


@pytest.mark.parametrize("count", [0, 2, 4, 2**31 - 1])
def test_a_wrong_count_is_refused(count):
    with pytest.raises(CorruptMessage):
        list(RecordBatch(header_with(count=count)))


def test_a_last_delta_below_the_last_record_is_refused():
    with pytest.raises(CorruptMessage, match="offset delta 3"):
        list(RecordBatch(header_with(last_delta=2)))


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_codec_is_refused_when_it_matters(number):
    batch = RecordBatch(batch_around(b"", count=0, last_delta=0, codec=number))
    with pytest.raises(CorruptMessage, match="unknown codec"):
        list(batch)


def test_compressed_records_are_bounded():
    batch = RecordBatch(batch_of(bytes(100_000), codec=Codec.GZIP))
    assert len(list(batch.records(max_bytes=101_000))) == 1
    with pytest.raises(CorruptMessage):
        batch.records(max_bytes=100_000)


def test_an_empty_block_is_no_records():
    packed = compress(Codec.ZSTD, b"")
    assert list(RecordBatch(batch_around(packed, count=0, last_delta=0, codec=Codec.ZSTD))) == []


def test_every_truncation_is_refused():
    raw = bytes(batch_of(*THREE_RECORDS, **FIELDS))
    for end in range(len(raw)):
        with pytest.raises(CorruptMessage):
            RecordBatch(raw[:end])


@pytest.mark.parametrize("codec", Codec)
def test_every_truncation_of_the_records_is_refused(codec):
    records = bytes(batch_of(*THREE_RECORDS, codec=codec, **FIELDS))[HEADER_BYTES:]
    for end in range(len(records)):
        batch = batch_around(records[:end], count=3, last_delta=3, codec=codec)
        with pytest.raises(CorruptMessage):
            list(RecordBatch(batch))


@pytest.mark.parametrize("codec", Codec)
def test_every_changed_byte_is_noticed_by_the_checksum_or_outside_it(codec):
    raw = bytes(batch_of(*THREE_RECORDS, codec=codec, **FIELDS))
    for position in range(len(raw)):
        damaged = raw[:position] + bytes([raw[position] ^ 0x55]) + raw[position + 1 :]
        if position < 8 or 12 <= position < 16:
            assert RecordBatch(damaged).is_valid()
        else:
            with pytest.raises(DecodeError):
                RecordBatch(damaged).check_crc()


@pytest.mark.parametrize("codec", Codec)
def test_every_changed_byte_under_a_right_checksum_is_read_safely_or_refused(codec):
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


def test_batches_follow_each_other():
    first, second = batch_of(b"a", b"b"), batch_of(b"c", base_offset=2, codec=Codec.LZ4)
    batches = batches_in(first + second)
    assert [record.value for batch in batches for record in batch] == [b"a", b"b", b"c"]
    assert batches.partial_bytes == 0


def test_a_partial_batch_at_the_end_is_counted_not_read():
    first, second = bytes(batch_of(b"a")), bytes(batch_of(b"b"))
    for end in range(len(second)):
        batches = batches_in(first + second[:end])
        assert len(list(batches)) == 1
        assert batches.partial_bytes == end
        assert batches.position == len(first)


def test_nothing_holds_no_batches():
    assert list(batches_in(b"")) == []


def test_a_batch_too_short_for_any_magic_is_refused():
    with pytest.raises(CorruptMessage, match="length 13"):
        whole_batch_bytes(header_with(length=13), 0)


@pytest.mark.parametrize("magic", [-1, 3])
def test_a_magic_that_never_was_is_refused(magic):
    with pytest.raises(CorruptMessage, match="magic"):
        list(batches_in(header_with(magic=magic)))


def test_a_set_of_any_magic_can_be_walked_with_another_view():
    old, new = header_with(magic=1), bytes(batch_of(b"a"))
    batches = Batches(old + new, lambda buffer, position: buffer[position + 16])
    assert list(batches) == [1, 2]


def test_a_batch_introduces_itself():
    assert "offsets 500 to 503" in repr(RecordBatch(batch_of(*THREE_RECORDS, **FIELDS)))
