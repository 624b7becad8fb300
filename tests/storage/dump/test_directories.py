"""The dump of whole directories, written by Kafka and by our code, intact and damaged."""

import pytest

from tests.support import logs
from tests.support.dumps import dumped
from tests.support.recorded_directories import (
    LEFT,
    RECOVERED,
    RecordedDirectory,
    names_of_recorded_directories,
)

RECORDED = names_of_recorded_directories()
INTACT = [name for name in RECORDED if not name.endswith("-damaged")]
DAMAGED = [name for name in RECORDED if name.endswith("-damaged")]


def test_directory_of_our_logs_has_no_damage(tmp_path):
    directory = tmp_path / "events-0"
    log = logs.opened(
        directory, segment_bytes=4_000, segment_index_bytes=120, index_interval_bytes=200
    )
    for number in range(100):
        logs.append(log, b"v" * (number % 60), timestamp=logs.NOW_MS + number * 7 % 50)
        if number % 10 == 0:
            producer = {"producer_id": number, "producer_epoch": 0}
            logs.append(log, b"t", **producer, base_sequence=0, is_transactional=True)
        if number % 10 == 9:
            logs.end_transaction(log, producer_id=number - 9, commit=number % 20 > 10)
    assert dumped("--verify", directory).exit_code == 0
    log.close(now_ms=logs.NOW_MS)
    dump = dumped("--verify", directory)
    assert dump.exit_code == 0
    assert dump.of_kind("room") == []
    assert len(dump.of_kind("index_entry")) > 10
    assert len(dump.of_kind("time_index_entry")) > 5
    assert len(dump.of_kind("aborted_transaction")) == 5
    assert len(dump.of_kind("producer")) > 5


@pytest.mark.parametrize("part", [LEFT, RECOVERED])
@pytest.mark.parametrize("name", INTACT)
def test_directories_of_kafka_have_no_damage(tmp_path, name, part):
    RecordedDirectory.unpack(name, tmp_path)
    dump = dumped("--verify", "--records", tmp_path / part)
    assert dump.damages == []
    assert {"batch", "record", "index_entry", "time_index_entry"} <= {
        item["kind"] for item in dump.facts
    }


@pytest.mark.parametrize("name", INTACT)
def test_aborted_transactions_are_those_that_the_kafka_tool_printed(tmp_path, name):
    for partition in RecordedDirectory.unpack(name, tmp_path).partitions:
        dump = dumped(tmp_path / RECOVERED / partition.name)
        assert [
            (transaction["producer_id"], transaction["first_offset"], transaction["last_offset"])
            for transaction in dump.of_kind("aborted_transaction")
        ] == [
            (transaction.producer_id, transaction.first_offset, transaction.last_offset)
            for transaction in partition.aborted
        ]


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_in_directories_of_kafka_is_found(tmp_path, name):
    RecordedDirectory.unpack(name, tmp_path)
    dump = dumped("--verify", tmp_path / LEFT)
    assert dump.exit_code == 1
    assert not any("/__" in item["file"] for item in dump.facts if item["kind"] == "damage")
