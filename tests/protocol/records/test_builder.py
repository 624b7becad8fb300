"""New batches of magic 2 have the bytes that Kafka's builder and other clients write."""

from array import array
from dataclasses import asdict

import pytest

from odradek.protocol.errors import EncodeError
from odradek.protocol.records.batch import HEADER_BYTES, RecordBatch
from odradek.protocol.records.builder import BatchBuilder, BatchFields, empty_batch, fields_of
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Header, Record
from tests.support.batches import batch_of
from tests.support.java_batches import JAVA_BATCHES, records_from
from tests.support.record_peers import (
    AiokafkaBatch,
    AiokafkaBuilder,
    KafkaPythonBatch,
    KafkaPythonBuilder,
)

PRODUCER = {"producer_id": 77, "producer_epoch": 3, "base_sequence": 12}
RECORDS = [
    Record(0, 1000, b"key", b"value " * 40, (Header("h", b"x"), Header("i", None))),
    Record(1, 900, None, b""),
    Record(2, 1000 + 2**33, b"", None, (Header("", b""),)),
]


def test_plain_batch_has_the_bytes_of_the_java_client():
    assert batch_of(*records_from(0)) == JAVA_BATCHES["plain"]


def test_transactional_batch_has_the_bytes_of_the_java_client():
    built = batch_of(
        *records_from(5_000_000_000),
        base_offset=5_000_000_000,
        partition_leader_epoch=9,
        producer_id=77,
        producer_epoch=3,
        base_sequence=2_147_483_600,
        is_transactional=True,
    )
    assert built == JAVA_BATCHES["transactional"]


def test_append_time_batch_has_the_bytes_of_the_java_client():
    assert batch_of(*records_from(0), append_time_ms=123_456) == JAVA_BATCHES["append_time"]


def test_delete_horizon_batch_has_the_bytes_of_the_java_client():
    assert batch_of(*records_from(0), delete_horizon_ms=500_000) == JAVA_BATCHES["delete_horizon"]


def test_batch_with_a_kept_last_offset_has_the_bytes_of_the_java_client():
    assert batch_of(*records_from(0), last_offset=1000) == JAVA_BATCHES["last_offset"]


def test_batch_without_a_timestamp_has_the_bytes_of_the_java_client():
    assert batch_of(Record(0, -1, b"k", b"v")) == JAVA_BATCHES["no_timestamp"]


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4])
def test_snappy_and_lz4_batches_have_the_bytes_of_the_java_client(codec):
    assert batch_of(*records_from(0), codec=codec) == JAVA_BATCHES[codec.name.lower()]


def test_empty_batch_has_the_bytes_of_the_java_client():
    fields = BatchFields(
        base_offset=100,
        partition_leader_epoch=7,
        codec=Codec.GZIP,
        is_transactional=True,
        delete_horizon_ms=1,
        **PRODUCER,
    )
    assert empty_batch(fields, last_offset=110, max_timestamp=4444) == JAVA_BATCHES["empty"]


def test_empty_control_batch_has_the_bytes_of_the_java_client():
    fields = BatchFields(
        base_offset=100,
        partition_leader_epoch=7,
        append_time_ms=4444,
        producer_id=77,
        producer_epoch=3,
        is_transactional=True,
        is_control=True,
    )
    emptied = empty_batch(fields, last_offset=110, max_timestamp=4444)
    assert emptied == JAVA_BATCHES["empty_control"]


@pytest.mark.parametrize("peer", [AiokafkaBuilder, KafkaPythonBuilder])
@pytest.mark.parametrize("is_transactional", [False, True])
def test_other_clients_build_the_same_bytes(peer, is_transactional):
    builder = peer(
        magic=2,
        compression_type=0,
        is_transactional=is_transactional,
        batch_size=1_000_000,
        **PRODUCER,
    )
    for record in RECORDS:
        builder.append(
            record.offset, record.timestamp, record.key, record.value, list(record.headers)
        )
    peer_bytes = builder.build()
    epoch = RecordBatch(peer_bytes).partition_leader_epoch
    our_bytes = batch_of(
        *RECORDS, partition_leader_epoch=epoch, is_transactional=is_transactional, **PRODUCER
    )
    assert our_bytes == peer_bytes


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("peer", [AiokafkaBatch, KafkaPythonBatch])
def test_other_clients_read_the_built_batch(peer, codec):
    batch = peer(bytes(batch_of(*RECORDS, codec=codec, **PRODUCER)))
    assert batch.validate_crc()
    assert [
        Record(r.offset, r.timestamp, r.key, r.value, tuple(Header(*h) for h in r.headers))
        for r in batch
    ] == RECORDS


@pytest.mark.parametrize(
    "fields",
    [
        {},
        PRODUCER,
        dict(PRODUCER, is_transactional=True, codec=Codec.GZIP),
        dict(PRODUCER, is_control=True, is_transactional=True, base_sequence=-1),
        {"append_time_ms": 99, "partition_leader_epoch": 4, "base_offset": 0},
        {"delete_horizon_ms": 99, "codec": Codec.ZSTD},
    ],
)
def test_batch_can_be_rebuilt_from_its_fields(fields):
    batch = RecordBatch(batch_of(*RECORDS, **fields))
    assert fields_of(batch) == BatchFields(**fields)
    rebuilt = RecordBatch(batch_of(*batch, **asdict(fields_of(batch))))
    assert fields_of(rebuilt) == BatchFields(**fields)
    assert list(rebuilt) == list(batch)


def test_offsets_increment_from_the_base_offset():
    builder = BatchBuilder(BatchFields(base_offset=40))
    for _ in range(3):
        builder.append(timestamp=1, key=None, value=None)
    assert builder.next_offset == 43
    assert [record.offset for record in RecordBatch(builder.build())] == [40, 41, 42]


@pytest.mark.parametrize("offset", [39, 40, 40 + 2**31])
def test_offset_that_goes_back_or_exceeds_the_batch_is_rejected(offset):
    builder = BatchBuilder(BatchFields(base_offset=40))
    builder.append(timestamp=1, key=None, value=None)
    with pytest.raises(EncodeError, match=f"offset {offset}"):
        builder.append(offset=offset, timestamp=1, key=None, value=None)


def test_timestamps_too_far_apart_for_one_batch_are_rejected():
    builder = BatchBuilder()
    builder.append(timestamp=-1, key=None, value=None)
    with pytest.raises(
        EncodeError,
        match="timestamp 9223372036854775807: out of range in a batch with base timestamp -1",
    ):
        builder.append(timestamp=2**63 - 1, key=None, value=None)
    builder.append(timestamp=2**63 - 2, key=None, value=None)
    assert [record.timestamp for record in RecordBatch(builder.build())] == [-1, 2**63 - 2]


def test_largest_negative_timestamp_delta_is_kept():
    records = [Record(0, 2**63 - 1, None, None), Record(1, -1, None, None)]
    assert list(RecordBatch(batch_of(*records))) == records


@pytest.mark.parametrize("timestamp", [-2, 2**63])
def test_invalid_timestamp_is_rejected(timestamp):
    with pytest.raises(EncodeError, match="timestamp"):
        BatchBuilder().append(timestamp=timestamp, key=None, value=None)


def test_rejected_record_does_not_change_the_batch():
    builder = BatchBuilder()
    with pytest.raises(EncodeError):
        builder.append(timestamp=5, key=None, value=None, headers=[Header("\ud800", b"")])
    builder.append(timestamp=9, key=None, value=b"v")
    assert builder.build() == batch_of(Record(0, 9, None, b"v"))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"key": 5}, "key: 5 is not bytes"),
        ({"key": ""}, "key: '' is not bytes"),
        ({"value": "text"}, "value: 'text' is not bytes"),
        ({"value": memoryview(array("i", [1, 2]))}, "value: a view of format i, .* is not bytes"),
        ({"value": memoryview(b"abcd")[::2]}, "value: a view of .* is not bytes"),
        ({"headers": [Header(None, b"")]}, "headers: key None is not valid text"),
        ({"headers": [Header(b"h", b"")]}, "headers: key b'h' is not valid text"),
        ({"headers": [Header("h", "text")]}, "headers: value of 'h': 'text' is not bytes"),
        ({"headers": [Header("h", array("i", [1]))]}, "headers: value of 'h': .* is not bytes"),
    ],
)
def test_error_names_a_field_that_is_not_bytes(record, message):
    builder = BatchBuilder()
    with pytest.raises(EncodeError, match=message):
        builder.append(**{"timestamp": 1, "key": None, "value": None} | record)
    assert builder.size_bytes == HEADER_BYTES


def test_invalid_compression_level_is_rejected_before_any_record():
    with pytest.raises(EncodeError, match="level: GZIP has no level 10"):
        BatchBuilder(BatchFields(codec=Codec.GZIP, level=10))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"is_transactional": True}, "is_transactional"),
        ({"producer_id": 1, "base_sequence": 0}, "producer_epoch"),
        ({"producer_id": 1, "producer_epoch": 0}, "base_sequence"),
    ],
)
def test_incomplete_producer_fields_are_rejected(fields, message):
    with pytest.raises(EncodeError, match=message):
        batch_of(b"a", **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"base_offset": 2**63},
        {"partition_leader_epoch": 2**31},
        {"producer_id": 2**63, "producer_epoch": 0, "base_sequence": 0},
        {"producer_id": 1, "producer_epoch": 2**15, "base_sequence": 0},
    ],
)
def test_fields_that_the_header_cannot_hold_are_rejected(fields):
    with pytest.raises(EncodeError, match=next(iter(fields))):
        batch_of(b"a", **fields)


def test_size_bytes_grows_with_each_record():
    builder = BatchBuilder()
    assert builder.size_bytes == HEADER_BYTES
    for value in (b"", b"x" * 100, b"y" * 10_000):
        builder.append(timestamp=5, key=None, value=value)
    assert builder.size_bytes == len(builder.build())


def test_has_room_exactly_up_to_the_limit():
    record = {"timestamp": -1, "key": b"k", "value": b"v" * 100, "headers": [Header("h", None)]}
    builder = BatchBuilder()
    for _ in range(2):
        builder.append(**record)
    size_bytes = builder.size_bytes

    for limit, expected in ((size_bytes, True), (size_bytes - 1, False)):
        limited = BatchBuilder(size_bytes_max=limit)
        limited.append(**record)
        assert limited.has_room_for(**record) is expected


def test_first_record_always_has_room():
    builder = BatchBuilder(size_bytes_max=0)
    assert builder.has_room_for(timestamp=1, key=None, value=bytes(1000))


def test_without_a_limit_there_is_always_room():
    builder = BatchBuilder()
    builder.append(timestamp=1, key=None, value=None)
    assert builder.has_room_for(timestamp=1, key=None, value=bytes(1000))


def test_compression_level_is_passed_to_the_codec():
    value = bytes(range(256)) * 100
    fast = batch_of(value, codec=Codec.ZSTD, level=-1000)
    assert len(fast) > len(batch_of(value, codec=Codec.ZSTD))
    assert next(iter(RecordBatch(fast))).value == value
