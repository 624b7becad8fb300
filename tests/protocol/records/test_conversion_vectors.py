"""Conversions agree with Kafka's classes: byte for byte where nothing is compressed."""

import pytest

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import BatchFields
from odradek.protocol.records.conversion import down_convert, rebuild_for_append
from odradek.protocol.records.record_set import batches_of_any_magic
from tests.support.legacy_vectors import codec_named, kafka_reads, legacy_vectors, we_read

DOWN = {vector["name"]: vector for vector in legacy_vectors()["down"]}
APPENDED = {vector["name"]: vector for vector in legacy_vectors()["appended"]}


@pytest.mark.parametrize("name", DOWN)
def test_old_fetch_version_gets_the_records_that_kafka_sends(name):
    vector = DOWN[name]
    parts = list(
        down_convert(
            bytes.fromhex(vector["source"]),
            magic=vector["magic"],
            first_offset=vector["first_offset"],
        )
    )
    assert sum(part.converted_count for part in parts) == vector["count"]
    check_agrees(b"".join(part.buffer for part in parts), vector["converted"])


@pytest.mark.parametrize("name", APPENDED)
def test_append_is_rebuilt_as_in_kafka(name):
    vector = APPENDED[name]
    is_append_time = vector["timestamp_type"] == "LogAppendTime"
    fields = BatchFields(
        base_offset=vector["next_offset"],
        partition_leader_epoch=vector["leader_epoch"],
        codec=codec_named(vector["codec"]),
        append_time_ms=vector["now_ms"] if is_append_time else None,
    )
    batches = list(batches_of_any_magic(bytes.fromhex(vector["source"])))
    rebuilt = rebuild_for_append(batches, fields, magic=vector["magic"])
    assert rebuilt.converted_count == sum(
        len(batch["records"]) for batch in vector["converted"]["batches"]
    )
    check_agrees(bytes(rebuilt.buffer), vector["converted"])


def check_agrees(converted, expected):
    if all(batch["codec"] == "none" for batch in expected["batches"]):
        assert converted.hex() == expected["bytes"]
    assert headers_in(converted) == headers_in(bytes.fromhex(expected["bytes"]))
    assert without_sizes(we_read(converted)) == without_sizes(kafka_reads(expected))


def headers_in(buffer):
    """Return the magic 2 header fields that do not depend on the compressor."""
    return [
        (
            batch.partition_leader_epoch,
            batch.attributes,
            batch.last_offset_delta,
            batch.base_timestamp,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.count,
        )
        for batch in batches_of_any_magic(buffer)
        if isinstance(batch, RecordBatch)
    ]


def without_sizes(batches):
    return [{**batch, "size_bytes": None} for batch in batches]
