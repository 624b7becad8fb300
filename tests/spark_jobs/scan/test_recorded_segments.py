"""Segments that Apache Kafka wrote: all codecs and formats, in every column."""

import pytest

from tests.support.recorded_segments import SEGMENTS, RecordedSegment, names_of_recorded_segments
from tests.support.scans import ALL_COLUMNS, LogDirectory, plain_rows

NAMES = names_of_recorded_segments()


@pytest.fixture(params=NAMES)
def recorded(request):
    return RecordedSegment.load(SEGMENTS, request.param)


def test_every_column_equals_the_plain_python_decoding(recorded, tmp_path):
    directory = LogDirectory(tmp_path)
    path = directory.write(0, [recorded.log])
    scanned = directory.scan(columns=ALL_COLUMNS, isolationLevel="read_uncommitted")
    assert scanned.rows == list(plain_rows(recorded.log, segment=str(path)))
    assert scanned.damages == []


def test_records_are_those_that_the_java_consumer_returned(recorded, tmp_path):
    directory = LogDirectory(tmp_path)
    directory.write(0, [recorded.log])
    scanned = directory.scan(isolationLevel="read_uncommitted")
    expected = [
        (record.offset, record.timestamp, record.key, record.value) for record in recorded.records
    ]
    assert [(r["offset"], r["timestamp"], r["key"], r["value"]) for r in scanned.rows] == expected
    assert directory.scan().offsets == list(recorded.committed_offsets)


def test_each_column_alone_equals_the_column_among_all(recorded, tmp_path):
    directory = LogDirectory(tmp_path)
    directory.write(0, [recorded.log])
    everything = directory.scan(columns=ALL_COLUMNS).rows
    for name in ALL_COLUMNS.split(","):
        alone = directory.scan(columns=name).rows
        assert [row[name] for row in alone] == [row[name] for row in everything], name


def test_batches_view_equals_kafkas_dump(recorded, tmp_path):
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
    modern_rows = [row for row in rows if row["magic"] == 2]
    assert [(row["baseOffset"], row["count"]) for row in modern_rows] == [
        (batch.base_offset, batch.count) for batch in modern
    ]
