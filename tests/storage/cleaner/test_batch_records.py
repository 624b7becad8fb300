"""Scanning the records of a batch, and rewriting it with fewer of them."""

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Header, Record
from odradek.storage.cleaner.batch_records import max_timestamp_of, parse_records, rewrite_batch
from tests.support.batches import batch_around, batch_of

NOW = 1_700_000_000_000
RECORDS = [
    Record(10, NOW, b"a", b"1"),
    Record(11, NOW + 70, None, b""),
    Record(15, NOW - 5, b"k" * 200, None, (Header("h", None),)),
    Record(300, NOW + 2**40, b"", b"v" * 20_000, (Header("h", b"x" * 100), Header("", b""))),
]


@pytest.mark.parametrize("codec", list(Codec))
def test_scan_returns_keys_offset_deltas_and_tombstones(codec):
    records = parse_records(RecordBatch(batch_of(*RECORDS, base_offset=10, codec=codec)))
    assert [10 + delta for delta in records.offset_deltas] == [record.offset for record in RECORDS]
    assert records.keys == [record.key for record in RECORDS]
    assert records.tombstones == {2}


@pytest.mark.parametrize("codec", list(Codec))
def test_retained_records_are_unchanged(codec):
    batch = RecordBatch(batch_of(*RECORDS, base_offset=10, codec=codec, last_offset=400))
    for mask in range(1, 2 ** len(RECORDS)):
        indexes = [index for index in range(len(RECORDS)) if mask >> index & 1]
        expected = [RECORDS[index] for index in indexes]
        for horizon_ms in (None, NOW + 12345):
            rewritten = rewrite(batch, indexes, new_horizon_ms=horizon_ms)
            assert list(rewritten) == expected
            assert rewritten.is_valid()
            assert rewritten.last_offset == 400
            assert rewritten.max_timestamp == max(record.timestamp for record in expected)
            assert rewritten.delete_horizon_ms == horizon_ms
            assert rewritten.codec is codec


def rewrite(batch, indexes, *, new_horizon_ms=None):
    records = parse_records(batch)
    return RecordBatch(
        rewrite_batch(
            batch,
            records,
            indexes,
            max_timestamp=max_timestamp_of(batch, records, indexes),
            new_delete_horizon_ms=new_horizon_ms,
        )
    )


def test_delete_horizon_is_kept_when_more_records_are_removed():
    batch = RecordBatch(batch_of(*RECORDS, base_offset=10, delete_horizon_ms=NOW + 5))
    rewritten = rewrite(batch, [1, 2, 3])
    assert rewritten.delete_horizon_ms == NOW + 5
    assert list(rewritten) == RECORDS[1:]


def test_append_time_of_a_batch_is_kept():
    batch = RecordBatch(batch_of(*RECORDS, base_offset=10, append_time_ms=NOW + 9))
    rewritten = rewrite(batch, [0], new_horizon_ms=NOW + 99)
    assert [record.timestamp for record in rewritten] == [NOW + 9]
    assert rewritten.max_timestamp == NOW + 9


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8100, 8191, 8192, 2**20])
@pytest.mark.parametrize("delta", [0, 63, 64, 8191, 8192, 2**31 - 1])
def test_lengths_and_deltas_can_have_any_number_of_bytes(size, delta):
    appended = [
        Record(delta, NOW, bytes(size), b"v"),
        Record(delta + 1, NOW - 2**40, None, None),
        Record(delta + 2, NOW + 2**40, b"k", bytes(size)),
        Record(delta + 3, NOW - 1, b"", b""),
    ]
    batch = RecordBatch(batch_of(*appended[: 4 if delta < 2**30 else 1]))
    records = parse_records(batch)
    assert records.keys == [record.key for record in appended[: batch.count]]
    assert [*records.offset_deltas] == [record.offset for record in appended[: batch.count]]
    rewritten = rewrite(batch, range(batch.count), new_horizon_ms=NOW + 5)
    assert list(rewritten) == list(batch)


# Lengths and deltas are zig-zag encoded: each byte is twice the number, and 1 means -1.
VALID = bytes([16, 0, 0, 0, 2, 97, 2, 49, 0])
INVALID = {
    "no bytes": b"",
    "cut in the key": bytes([14, 0, 0, 0, 2]),
    "a length beyond the end": bytes([100, 0, 0, 0, 2, 97, 2, 49, 0]),
    "a length that ends with the key": bytes([8, 0, 0, 0, 2, 97]),
    "a length that ends with the length of the value": bytes([10, 0, 0, 0, 2, 97, 2]),
    "a timestamp without an end": bytes([40, 0]) + b"\xff" * 19,
    "a key of length -2 in two bytes": bytes([18, 0, 0, 0, 0x83, 0, 97, 2, 49, 0]),
    "a negative length": bytes([1, 0, 0, 0, 2, 97, 2, 49, 0]),
    "a key of length -2": bytes([16, 0, 0, 0, 3, 97, 2, 49, 0]),
    "a value of length -2": bytes([16, 0, 0, 0, 2, 97, 3, 49, 0]),
    "an offset beyond the last": bytes([16, 0, 0, 20, 2, 97, 2, 49, 0]),
    "a negative offset": bytes([16, 0, 0, 1, 2, 97, 2, 49, 0]),
    "an endless varint": b"\xff" * 20,
    "bytes after the last": bytes([16, 0, 0, 0, 2, 97, 2, 49, 0, 0]),
}


def test_record_that_the_invalid_ones_derive_from_is_valid():
    records = parse_records(RecordBatch(batch_around(VALID, count=1, last_delta=5)))
    assert (records.keys, records.tombstones) == ([b"a"], set())


@pytest.mark.parametrize("name", INVALID)
def test_contradictions_inside_a_batch_are_corrupt(name):
    batch = RecordBatch(batch_around(INVALID[name], count=1, last_delta=5))
    with pytest.raises(CorruptMessage):
        parse_records(batch)


def test_offsets_that_do_not_ascend_are_corrupt():
    record = bytes([16, 0, 0, 2, 2, 97, 2, 49, 0])
    batch = RecordBatch(batch_around(record * 2, count=2, last_delta=5))
    with pytest.raises(CorruptMessage, match="offset delta 1 after 1"):
        parse_records(batch)


def test_truncated_records_are_corrupt():
    body = parse_records(RecordBatch(batch_of(*RECORDS[:3], base_offset=10))).body
    for end in range(len(body)):
        batch = RecordBatch(batch_around(body[:end], count=3, last_delta=5))
        with pytest.raises(CorruptMessage):
            parse_records(batch)
