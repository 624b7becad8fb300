"""Single segments that Apache Kafka wrote: all codecs and formats, in every column."""

import pytest

from tests.support.recorded_segments import SEGMENTS, RecordedSegment, names_of_recorded_segments
from tests.support.scans import ALL_COLUMNS, LogDirectory, plain_rows

NAMES = names_of_recorded_segments()


@pytest.fixture(params=NAMES)
def recorded(request):
    return RecordedSegment.load(SEGMENTS, request.param)


def test_every_column_is_what_plain_python_reads(recorded, tmp_path):
    directory = LogDirectory(tmp_path)
    path = directory.write(0, [recorded.log])
    found = directory.scan(columns=ALL_COLUMNS, isolationLevel="read_uncommitted")
    assert found.rows == list(plain_rows(recorded.log, segment=str(path)))
    assert found.damages == []


def test_records_are_those_that_the_java_consumer_returned(recorded, tmp_path):
    directory = LogDirectory(tmp_path)
    directory.write(0, [recorded.log])
    found = directory.scan(isolationLevel="read_uncommitted")
    seen = [(each.offset, each.timestamp, each.key, each.value) for each in recorded.records]
    assert [(r["offset"], r["timestamp"], r["key"], r["value"]) for r in found.rows] == seen
    assert directory.scan().offsets == list(recorded.committed_offsets)


def test_each_column_alone_is_the_same_as_with_all_others(recorded, tmp_path):
    directory = LogDirectory(tmp_path)
    directory.write(0, [recorded.log])
    everything = directory.scan(columns=ALL_COLUMNS).rows
    for name in ALL_COLUMNS.split(","):
        alone = directory.scan(columns=name).rows
        assert [row[name] for row in alone] == [row[name] for row in everything], name


def test_view_of_batches_is_what_kafka_dumped(recorded, tmp_path):
    directory = LogDirectory(tmp_path)
    directory.write(0, [recorded.log])
    rows = directory.scan(view="batches").rows
    assert [
        (
            row["position"],
            row["sizeBytes"],
            row["magic"],
            row["codec"],
            row["checksum"],
            row["maxTimestamp"],
            row["lastOffset"],
            row["isTransactional"],
            row["isControl"],
        )
        for row in rows
    ] == [
        (
            batch.position,
            batch.size,
            batch.magic,
            batch.codec,
            batch.crc,
            batch.timestamp,
            batch.last_offset,
            batch.is_transactional,
            batch.is_control,
        )
        for batch in recorded.batches
    ]
    modern = [batch for batch in recorded.batches if batch.magic == 2]
    of_modern = [row for row in rows if row["magic"] == 2]
    assert [(row["baseOffset"], row["count"]) for row in of_modern] == [
        (batch.base_offset, batch.count) for batch in modern
    ]
