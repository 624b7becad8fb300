"""Batches of records of an internal topic."""

from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.coordinator.batches import build_batch, build_plain_batch
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec

records = st.lists(
    st.tuples(st.binary(max_size=200), st.none() | st.binary(max_size=200)), min_size=1, max_size=20
)


@given(records, st.integers(0, 2**50))
def test_plain_batch_equals_the_batch_of_the_builder(records, timestamp):
    builder = BatchBuilder()
    for key, value in records:
        builder.append(timestamp=timestamp, key=key, value=value)
    assert build_plain_batch(records, timestamp=timestamp) == builder.build()


def test_batch_can_be_compressed_and_transactional():
    fields = BatchFields(
        codec=Codec.GZIP, producer_id=7, producer_epoch=1, base_sequence=0, is_transactional=True
    )
    batch = RecordBatch(build_batch([(b"k", b"v"), (b"l", None)], timestamp=3, fields=fields))
    assert (batch.codec, batch.producer_id, batch.is_transactional) == (Codec.GZIP, 7, True)
    assert [(each.key, each.value) for each in batch] == [(b"k", b"v"), (b"l", None)]
