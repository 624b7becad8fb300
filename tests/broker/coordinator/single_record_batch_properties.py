"""The fast reader of single-record batches agrees with the general one or declines the batch."""

from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.coordinator.batches import build_plain_batch
from odradek.broker.coordinator.single_record_batch import read_single_record_batch
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec

keys = st.binary(max_size=300)
values = st.none() | st.binary(max_size=9000)
junk = st.binary(max_size=100)


def read(raw, position=0):
    return read_single_record_batch(raw, memoryview(raw), position)


@given(keys, values, st.integers(0, 2**40), junk, junk)
def test_single_record_batch_is_read_at_any_position(key, value, offset, before, after):
    batch = build_plain_batch([(key, value)], timestamp=5)
    RecordBatch(batch).assign_offsets(offset, 3)
    raw = before + bytes(batch) + after
    assert read(raw, len(before)) in (None, (offset, key, value, len(before) + len(batch)))
    if len(value or b"") < 8000:
        assert read(raw, len(before)) is not None


@given(keys, values, st.integers(0, 400), st.integers(0, 255))
def test_damaged_batch_is_never_read_as_another_record(key, value, index, byte):
    good = bytes(build_plain_batch([(key, value)], timestamp=5))
    bad = bytearray(good)
    index %= len(bad)
    bad[index] = byte
    record = read(bytes(bad))
    # The checksum does not cover the offset and the leader epoch, which the broker sets.
    assert record is None or bytes(bad) == good or index < 16


@given(keys, values, st.integers(0, 400))
def test_truncated_batch_is_not_read(key, value, length):
    good = bytes(build_plain_batch([(key, value)], timestamp=5))
    assert length >= len(good) or read(good[:length]) is None


def test_other_batches_are_left_to_the_general_reader():
    others = [
        build_plain_batch([(b"a", b"1"), (b"b", b"2")], timestamp=5),
        build_batch_of(BatchFields(codec=Codec.GZIP)),
        build_batch_of(
            BatchFields(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        ),
        build_batch_of(BatchFields(append_time_ms=7)),
        build_batch_of(headers=[("h", b"v")]),
        build_batch_of(key=None),
    ]
    assert [read(bytes(each)) for each in others] == [None] * len(others)


def build_batch_of(fields=None, **record):
    builder = BatchBuilder(fields or BatchFields())
    builder.append(**{"timestamp": 5, "key": b"k", "value": b"v", **record})
    return builder.build()
