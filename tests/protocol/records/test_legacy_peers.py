"""kafka-python and aiokafka agree with our code for magic 0 and 1.

Neither supports LZ4 in magic 0 here: aiokafka rejects it, and kafka-python needs another package.
"""

import warnings

import aiokafka.record.legacy_records as aiokafka_records
import pytest

from odradek.protocol.records.compression import Codec
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.protocol.records.legacy_builder import LegacyFormat, build_legacy_set
from odradek.protocol.records.record import Record
from odradek.protocol.records.record_set import batches_of_any_magic

with warnings.catch_warnings():
    # kafka-python 3.0 loads its schemas with a function that Python 3.11 and 3.12 deprecate.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.record.legacy_records as kafka_python_records

RECORDS = [
    Record(0, 1_700_000_000_000, None, b"value"),
    Record(1, 1_700_000_000_001, b"", b""),
    Record(2, 1_700_000_000_000, b"key", None),
    Record(3, 0, None, None),
    Record(4, 1_700_000_000_002, b"key" * 50, b"value" * 20_000),
]
PEERS = {
    "kafka-python": kafka_python_records,
    "aiokafka": aiokafka_records,
    "aiokafka in Python": None,
}
FORMATS = [
    LegacyFormat(magic=magic, codec=codec)
    for magic in (0, 1)
    for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
    if not (magic == 0 and codec is Codec.LZ4)
]
NAMES = [f"magic {legacy_format.magic} {legacy_format.codec.name}" for legacy_format in FORMATS]


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("legacy_format", FORMATS, ids=NAMES)
def test_record_set_of_a_peer_is_read(peer, legacy_format):
    encoded = encoded_by(peer, legacy_format)
    assert records_in(encoded) == expected_records(legacy_format)


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("legacy_format", FORMATS, ids=NAMES)
def test_peer_reads_our_record_set(peer, legacy_format):
    for batch in batches_of_any_magic(bytes(build_legacy_set(RECORDS, legacy_format))):
        peer_batch = batch_class(peer)(bytes(batch.view), legacy_format.magic)
        assert peer_batch.validate_crc()
        assert [to_record(record) for record in peer_batch] == list(batch.records())


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("magic", [0, 1])
def test_uncompressed_sets_have_the_same_bytes(peer, magic):
    legacy_format = LegacyFormat(magic=magic)
    assert encoded_by(peer, legacy_format) == bytes(build_legacy_set(RECORDS, legacy_format))


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_wrapper_with_an_assigned_offset_is_read_alike(peer, codec):
    wrapper = bytearray(encoded_by(peer, LegacyFormat(magic=1, codec=codec)))
    our_batch = LegacyBatch(wrapper)
    our_batch.set_last_offset(1004)
    peer_batch = batch_class(peer)(bytes(wrapper), 1)
    assert peer_batch.validate_crc()
    assert [record.offset for record in peer_batch] == [1000, 1001, 1002, 1003, 1004]
    assert [record.offset for record in our_batch] == [1000, 1001, 1002, 1003, 1004]


def encoded_by(peer, legacy_format):
    builder = builder_class(peer)(legacy_format.magic, legacy_format.codec.value, 1_000_000)
    for record in RECORDS:
        builder.append(record.offset, record.timestamp, record.key, record.value)
    return bytes(builder.build())


def builder_class(peer):
    if PEERS[peer] is None:
        return aiokafka_records._LegacyRecordBatchBuilderPy
    return PEERS[peer].LegacyRecordBatchBuilder


def batch_class(peer):
    return (
        aiokafka_records._LegacyRecordBatchPy
        if PEERS[peer] is None
        else PEERS[peer].LegacyRecordBatch
    )


def records_in(buffer):
    batches = list(batches_of_any_magic(buffer))
    for batch in batches:
        batch.check_crc()
    return [record for batch in batches for record in batch]


def expected_records(legacy_format):
    if legacy_format.magic == 1:
        return RECORDS
    return [record._replace(timestamp=-1) for record in RECORDS]


def to_record(record):
    timestamp = -1 if record.timestamp is None else record.timestamp
    return Record(record.offset, timestamp, record.key, record.value)
