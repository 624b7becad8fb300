"""Directories that Apache Kafka wrote, scanned: the records that its own consumer read."""

import json

import pytest

from odradek.spark_jobs.scan.catalog import partition_logs
from odradek.spark_jobs.scan.lookup import first_as_young
from odradek.spark_jobs.scan.options import options_of
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
    found = Scanned(str(path), assign=assign, includeHeaders="true", **options)
    assert found.damages == []
    return [
        (
            row["offset"],
            row["key"],
            row["value"],
            row["timestamp"],
            [(header["key"], header["value"]) for header in row["headers"] or ()],
        )
        for row in found.rows
    ]


def consumed(partition):
    return [
        (each.offset, each.key, each.value, each.timestamp, list(each.headers))
        for each in partition.records
    ]


@pytest.mark.parametrize("name", NAMES)
def test_recovered_directory_has_what_a_consumer_read(name, tmp_path):
    directory = RecordedDirectory.unpack(name, tmp_path)
    for partition in directory.partitions:
        seen = scanned(tmp_path / RECOVERED, partition, isolationLevel="read_uncommitted")
        assert seen == consumed(partition), partition.name


@pytest.mark.parametrize("name", NAMES)
def test_read_committed_sees_what_such_a_consumer_saw(name, tmp_path):
    directory = RecordedDirectory.unpack(name, tmp_path)
    for partition in directory.partitions:
        seen = scanned(tmp_path / RECOVERED, partition)
        committed = [
            each for each in consumed(partition) if each[0] in set(partition.committed_offsets)
        ]
        assert seen == committed, partition.name


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("damaged")])
def test_directory_as_it_was_left_has_the_same_without_any_recovery(name, tmp_path):
    """A killed broker leaves a high watermark that is behind, so that is ignored."""
    directory = RecordedDirectory.unpack(name, tmp_path)
    for partition in directory.partitions:
        seen = scanned(tmp_path / LEFT, partition, ignoreHighWatermark="true")
        committed = set(partition.committed_offsets)
        assert seen == [each for each in consumed(partition) if each[0] in committed]


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("stopped")])
def test_times_lead_to_the_offsets_that_kafka_told(name, tmp_path):
    """Or to an earlier record as young that a consumer read: Kafka looks into one segment."""
    directory = RecordedDirectory.unpack(name, tmp_path)
    told = {(each.topic, each.partition): each for each in directory.partitions}
    for log in partition_logs(options_of({"path": str(tmp_path / RECOVERED)})):
        partition = told[log.topic, log.partition]
        for answer in partition.timestamps:
            right = None if answer.offset < 0 else answer.offset
            as_young = [each for each in partition.records if each.timestamp >= answer.asked]
            if as_young and (right is None or right > as_young[0].offset):
                right = as_young[0].offset
            assert first_as_young(log, answer.asked) == right, (partition.name, answer)
