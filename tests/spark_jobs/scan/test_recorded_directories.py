"""Scans of directories that Apache Kafka wrote return what its own consumer read."""

import json

import pytest

from odradek.spark_jobs.scan.catalog import find_partition_logs
from odradek.spark_jobs.scan.lookup import find_offset_by_timestamp
from odradek.spark_jobs.scan.options import parse_options
from tests.support.recorded_directories import (
    LEFT,
    RECOVERED,
    RecordedDirectory,
    names_of_recorded_directories,
)
from tests.support.scans import Scanned

NAMES = names_of_recorded_directories()


def scanned(path, partition, **options):
    assign = json.dumps({partition.topic: [partition.partition]})
    scan = Scanned(str(path), assign=assign, includeHeaders="true", **options)
    assert scan.damages == []
    return [
        (
            row["offset"],
            row["key"],
            row["value"],
            row["timestamp"],
            [(header["key"], header["value"]) for header in row["headers"] or ()],
        )
        for row in scan.rows
    ]


def consumed(partition):
    return [
        (record.offset, record.key, record.value, record.timestamp, list(record.headers))
        for record in partition.records
    ]


@pytest.mark.parametrize("name", NAMES)
def test_recovered_directory_has_the_consumed_records(name, tmp_path):
    directory = RecordedDirectory.unpack(name, tmp_path)
    for partition in directory.partitions:
        seen = scanned(tmp_path / RECOVERED, partition, isolationLevel="read_uncommitted")
        assert seen == consumed(partition), partition.name


@pytest.mark.parametrize("name", NAMES)
def test_read_committed_returns_the_committed_records(name, tmp_path):
    directory = RecordedDirectory.unpack(name, tmp_path)
    for partition in directory.partitions:
        seen = scanned(tmp_path / RECOVERED, partition)
        committed = [
            record
            for record in consumed(partition)
            if record[0] in set(partition.committed_offsets)
        ]
        assert seen == committed, partition.name


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("damaged")])
def test_directory_before_recovery_has_the_same_records(name, tmp_path):
    """A killed broker leaves an old high watermark, so it is ignored."""
    directory = RecordedDirectory.unpack(name, tmp_path)
    for partition in directory.partitions:
        seen = scanned(tmp_path / LEFT, partition, ignoreHighWatermark="true")
        committed = set(partition.committed_offsets)
        assert seen == [record for record in consumed(partition) if record[0] in committed]


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("stopped")])
def test_timestamp_lookup_returns_the_offset_that_kafka_returned(name, tmp_path):
    """Or an earlier record that is not older and was consumed: Kafka searches one segment only."""
    directory = RecordedDirectory.unpack(name, tmp_path)
    recorded = {
        (partition.topic, partition.partition): partition for partition in directory.partitions
    }
    for log in find_partition_logs(parse_options({"path": str(tmp_path / RECOVERED)})):
        partition = recorded[log.topic, log.partition]
        for lookup in partition.timestamps:
            expected = None if lookup.offset < 0 else lookup.offset
            not_older = [record for record in partition.records if record.timestamp >= lookup.asked]
            if not_older and (expected is None or expected > not_older[0].offset):
                expected = not_older[0].offset
            assert find_offset_by_timestamp(log, lookup.asked) == expected, (partition.name, lookup)
