"""Kafka's classes agree with our code for magic 0 and 1."""

import pytest

from odradek.protocol.records.compression import Codec
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.protocol.records.legacy_builder import LegacyFormat, build_legacy_set
from odradek.protocol.records.legacy_lz4 import with_broken_checksum, with_correct_checksum
from odradek.protocol.records.record import Record, TimestampType
from tests.support.legacy_vectors import codec_named, kafka_reads, legacy_vectors, we_read

SETS = {vector["name"]: vector for vector in legacy_vectors()["sets"]}
ENCODED_AT_ONCE = [
    name
    for name in SETS
    if name.startswith("magic") and "stamped" not in name and "zero" not in name
]


@pytest.mark.parametrize("name", SETS)
def test_record_set_is_read_as_in_kafka(name):
    assert we_read(bytes.fromhex(SETS[name]["bytes"])) == kafka_reads(SETS[name])


@pytest.mark.parametrize("name", ENCODED_AT_ONCE)
def test_record_set_is_encoded_as_in_kafka(name):
    vector = SETS[name]
    encoded = build_legacy_set(records_of(vector), format_of(vector))
    if format_of(vector).codec is Codec.NONE:
        assert encoded.hex() == vector["bytes"]
    else:
        assert without_sizes(we_read(encoded)) == without_sizes(kafka_reads(vector))


@pytest.mark.parametrize("name", [name for name in SETS if "stamped" in name])
def test_log_append_time_is_set_in_place_as_in_kafka(name):
    created = SETS[name.replace(" stamped by the broker", "")]
    stamped = SETS[name]["batches"]
    buffer = bytearray.fromhex(created["bytes"])
    position = 0
    for batch, expected in zip(created["batches"], stamped, strict=True):
        view = LegacyBatch(buffer, position)
        view.set_last_offset(batch["last_offset"] + 40)
        view.set_max_timestamp(expected["max_timestamp"], TimestampType.LOG_APPEND_TIME)
        position += view.size_bytes
    assert buffer.hex() == SETS[name]["bytes"]


@pytest.mark.parametrize("name", [name for name in SETS if name.startswith("magic 0 lz4")])
def test_lz4_header_of_magic_0_has_the_broken_checksum_of_kafka(name):
    frame = bytes(LegacyBatch(bytes.fromhex(SETS[name]["bytes"])).view[26:])
    repaired = with_correct_checksum(frame)
    assert repaired != frame
    assert with_broken_checksum(repaired) == frame


@pytest.mark.parametrize("name", [name for name in SETS if name.startswith("magic 1 lz4")])
def test_lz4_header_of_magic_1_has_the_correct_checksum(name):
    frame = bytes(LegacyBatch(bytes.fromhex(SETS[name]["bytes"])).view[34:])
    assert with_correct_checksum(frame) == frame


def records_of(vector):
    return [
        Record(offset, timestamp, from_hex(key), from_hex(value))
        for batch in vector["batches"]
        for offset, timestamp, key, value, _ in batch["records"]
    ]


def format_of(vector):
    first = vector["batches"][0]
    is_append_time = first["timestamp_type"] == "LogAppendTime"
    return LegacyFormat(
        magic=first["magic"],
        codec=codec_named(first["codec"]),
        append_time_ms=first["max_timestamp"] if is_append_time else None,
    )


def from_hex(content):
    return None if content is None else bytes.fromhex(content)


def without_sizes(batches):
    return [{**batch, "size_bytes": None} for batch in batches]
