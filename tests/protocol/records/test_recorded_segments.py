"""Our record code reads and rebuilds segments that Apache Kafka wrote (tests/vectors/ORIGIN.md)."""

import pytest

from odradek.protocol.records.record_set import batches_of_any_magic
from tests.support.recorded_segments import (
    SEGMENTS,
    RecordedSegment,
    names_of_recorded_segments,
)
from tests.support.segment_reading import (
    batches_in_segment,
    can_be_rebuilt_alike,
    rebuilt,
    seen_records,
    stored_batches,
)

NAMES = names_of_recorded_segments()


@pytest.fixture(params=NAMES)
def segment(request):
    return RecordedSegment.load(SEGMENTS, request.param)


def test_batches_are_those_that_the_kafka_tool_printed(segment):
    assert stored_batches(segment.log) == segment.batches


def test_records_are_those_that_the_java_consumer_returned(segment):
    assert seen_records(segment.log) == segment.records


def test_checksums_are_valid(segment):
    assert all(batch.is_valid() for batch in batches_in_segment(segment.log))


def test_uncompressed_batches_are_rebuilt_byte_for_byte(segment):
    batches = [batch for batch in batches_in_segment(segment.log) if can_be_rebuilt_alike(batch)]
    assert [rebuilt(batch) for batch in batches] == [bytes(batch.view) for batch in batches]


def test_truncated_segment_ends_with_its_last_whole_batch(segment):
    whole = list(batches_of_any_magic(segment.log[:-1]))
    assert [batch.position for batch in whole] == [batch.position for batch in segment.batches[:-1]]


def test_every_client_magic_and_codec_is_recorded():
    segments = [RecordedSegment.load(SEGMENTS, name) for name in NAMES]
    covered = {
        (segment.name.partition("-")[0], batch.magic, batch.codec)
        for segment in segments
        for batch in segment.batches
    }
    codecs = ("none", "gzip", "snappy", "lz4")
    assert covered >= {
        *(("java", magic, codec) for magic in (0, 1, 2) for codec in codecs),
        *(("librdkafka", 2, codec) for codec in codecs),
        ("java", 2, "zstd"),
        ("librdkafka", 2, "zstd"),
    }
