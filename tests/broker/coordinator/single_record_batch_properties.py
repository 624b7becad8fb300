"""A batch of one record is read as any batch is, or is left to those who read any."""

from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.coordinator.batches import plain_batch
from odradek.broker.coordinator.lone_records import lone_record
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec

keys = st.binary(max_size=300)
values = st.none() | st.binary(max_size=9000)
junk = st.binary(max_size=100)


def read(raw, position=0):
    return lone_record(raw, memoryview(raw), position)


@given(keys, values, st.integers(0, 2**40), junk, junk)
def test_it_is_found_wherever_it_is(key, value, offset, before, after):
    batch = plain_batch([(key, value)], timestamp=5)
    RecordBatch(batch).number(offset, 3)
    raw = before + bytes(batch) + after
    assert read(raw, len(before)) in (None, (offset, key, value, len(before) + len(batch)))
    if len(value or b"") < 8000:
        assert read(raw, len(before)) is not None


@given(keys, values, st.integers(0, 400), st.integers(0, 255))
def test_one_that_is_damaged_is_never_taken_for_another(key, value, at, byte):
    good = bytes(plain_batch([(key, value)], timestamp=5))
    bad = bytearray(good)
    at %= len(bad)
    bad[at] = byte
    found = read(bytes(bad))
    # Offset and leader epoch are the broker's, and not among what the checksum is of.
    assert found is None or bytes(bad) == good or at < 16


@given(keys, values, st.integers(0, 400))
def test_nor_one_that_is_cut(key, value, length):
    good = bytes(plain_batch([(key, value)], timestamp=5))
    assert length >= len(good) or read(good[:length]) is None


def test_all_others_are_left_to_those_who_read_any():
    others = [
        plain_batch([(b"a", b"1"), (b"b", b"2")], timestamp=5),
        built(BatchFields(codec=Codec.GZIP)),
        built(BatchFields(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)),
        built(BatchFields(append_time_ms=7)),
        built(headers=[("h", b"v")]),
        built(key=None),
    ]
    assert [read(bytes(each)) for each in others] == [None] * len(others)


def built(fields=None, **record):
    builder = BatchBuilder(fields or BatchFields())
    builder.append(**{"timestamp": 5, "key": b"k", "value": b"v", **record})
    return builder.build()
