"""Walking over the records of a batch, and writing it with fewer of them."""

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Header, Record
from odradek.storage.cleaner_records import body_of, largest_timestamp, walk, with_records
from tests.support.batches import batch_around, batch_of

NOW = 1_700_000_000_000
RECORDS = [
    Record(10, NOW, b"a", b"1"),
    Record(11, NOW + 70, None, b""),
    Record(15, NOW - 5, b"k" * 200, None, (Header("h", None),)),
    Record(300, NOW + 2**40, b"", b"v" * 20_000, (Header("h", b"x" * 100), Header("", b""))),
]


def walked(batch):
    return list(walk(body_of(batch), count=batch.count, last_delta=batch.last_offset_delta))


@pytest.mark.parametrize("codec", list(Codec))
def test_a_walk_tells_of_each_record_its_key_its_offset_and_whether_it_has_a_value(codec):
    batch = RecordBatch(batch_of(*RECORDS, base_offset=10, codec=codec))
    assert [(10 + each.offset_delta, each.key, each.has_value) for each in walked(batch)] == [
        (record.offset, record.key, record.value is not None) for record in RECORDS
    ]


@pytest.mark.parametrize("codec", list(Codec))
def test_what_is_kept_reads_as_before(codec):
    batch = RecordBatch(batch_of(*RECORDS, base_offset=10, codec=codec, last_offset=400))
    everything = walked(batch)
    for chosen in range(1, 2 ** len(RECORDS)):
        kept = [each for slot, each in enumerate(everything) if chosen >> slot & 1]
        expected = [each for slot, each in enumerate(RECORDS) if chosen >> slot & 1]
        for horizon_ms in (None, NOW + 12345):
            smaller = rewritten(batch, kept, new_horizon_ms=horizon_ms)
            assert list(smaller) == expected
            assert smaller.is_valid()
            assert smaller.last_offset == 400
            assert smaller.max_timestamp == max(record.timestamp for record in expected)
            assert smaller.delete_horizon_ms == horizon_ms
            assert smaller.codec is codec


def rewritten(batch, kept, *, new_horizon_ms=None):
    return RecordBatch(
        with_records(
            batch,
            body_of(batch),
            kept,
            max_timestamp=largest_timestamp(batch, kept),
            new_horizon_ms=new_horizon_ms,
        )
    )


def test_a_horizon_stays_when_more_records_go():
    batch = RecordBatch(batch_of(*RECORDS, base_offset=10, delete_horizon_ms=NOW + 5))
    smaller = rewritten(batch, walked(batch)[1:])
    assert smaller.delete_horizon_ms == NOW + 5
    assert list(smaller) == RECORDS[1:]


def test_the_append_time_of_a_batch_stays():
    batch = RecordBatch(batch_of(*RECORDS, base_offset=10, append_time_ms=NOW + 9))
    smaller = rewritten(batch, walked(batch)[:1], new_horizon_ms=NOW + 99)
    assert [record.timestamp for record in smaller] == [NOW + 9]
    assert smaller.max_timestamp == NOW + 9


# Lengths and deltas are zig-zag: each byte is twice the number, and 1 stands for -1.
RIGHT = bytes([16, 0, 0, 0, 2, 97, 2, 49, 0])
WRONG = {
    "no bytes": b"",
    "cut in the key": bytes([14, 0, 0, 0, 2]),
    "a length beyond the end": bytes([100, 0, 0, 0, 2, 97, 2, 49, 0]),
    "a length that ends in the value": bytes([12, 0, 0, 0, 2, 97, 20, 49, 0]),
    "a value that reaches the end": bytes([16, 0, 0, 0, 2, 97, 6, 49, 0]),
    "a negative length": bytes([1, 0, 0, 0, 2, 97, 2, 49, 0]),
    "a key of length -2": bytes([16, 0, 0, 0, 3, 97, 2, 49, 0]),
    "a value of length -2": bytes([16, 0, 0, 0, 2, 97, 3, 49, 0]),
    "an offset beyond the last": bytes([16, 0, 0, 20, 2, 97, 2, 49, 0]),
    "a negative offset": bytes([16, 0, 0, 1, 2, 97, 2, 49, 0]),
    "an endless varint": b"\xff" * 20,
    "bytes after the last": bytes([16, 0, 0, 0, 2, 97, 2, 49, 0, 0]),
}


def test_what_the_wrong_ones_were_made_from_is_right():
    (record,) = walked(RecordBatch(batch_around(RIGHT, count=1, last_delta=5)))
    assert (record.key, record.has_value) == (b"a", True)


@pytest.mark.parametrize("name", WRONG)
def test_contradictions_inside_a_batch_are_corrupt(name):
    batch = RecordBatch(batch_around(WRONG[name], count=1, last_delta=5))
    with pytest.raises(CorruptMessage):
        walked(batch)


def test_offsets_that_do_not_ascend_are_corrupt():
    record = bytes([16, 0, 0, 2, 2, 97, 2, 49, 0])
    batch = RecordBatch(batch_around(record * 2, count=2, last_delta=5))
    with pytest.raises(CorruptMessage, match="offset delta 1 after 1"):
        walked(batch)


def test_every_cut_of_the_records_is_corrupt():
    body = body_of(RecordBatch(batch_of(*RECORDS[:3], base_offset=10)))
    for end in range(len(body)):
        batch = RecordBatch(batch_around(body[:end], count=3, last_delta=5))
        with pytest.raises(CorruptMessage):
            walked(batch)
