"""The dump of whole directories: Kafka's and our own, sound and damaged."""

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
SOUND = [name for name in RECORDED if not name.endswith("-damaged")]
DAMAGED = [name for name in RECORDED if name.endswith("-damaged")]


def test_what_our_own_logs_leave_is_sound(tmp_path):
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
    facts = dumped("--verify", directory)
    assert facts.exit_code == 0
    assert facts.of_kind("room") == []
    assert len(facts.of_kind("index_entry")) > 10
    assert len(facts.of_kind("time_index_entry")) > 5
    assert len(facts.of_kind("aborted_transaction")) == 5
    assert len(facts.of_kind("producer")) > 5


@pytest.mark.parametrize("part", [LEFT, RECOVERED])
@pytest.mark.parametrize("name", SOUND)
def test_directories_that_kafka_wrote_are_sound(tmp_path, name, part):
    RecordedDirectory.unpack(name, tmp_path)
    facts = dumped("--verify", "--records", tmp_path / part)
    assert facts.damages == []
    assert {"batch", "record", "index_entry", "time_index_entry"} <= {
        fact["kind"] for fact in facts.facts
    }


@pytest.mark.parametrize("name", SOUND)
def test_aborted_transactions_are_those_that_kafkas_own_tool_printed(tmp_path, name):
    for partition in RecordedDirectory.unpack(name, tmp_path).partitions:
        facts = dumped(tmp_path / RECOVERED / partition.name)
        assert [
            (each["producer_id"], each["first_offset"], each["last_offset"])
            for each in facts.of_kind("aborted_transaction")
        ] == [(each.producer_id, each.first_offset, each.last_offset) for each in partition.aborted]


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_done_to_directories_that_kafka_wrote_is_found(tmp_path, name):
    RecordedDirectory.unpack(name, tmp_path)
    facts = dumped("--verify", tmp_path / LEFT)
    assert facts.exit_code == 1
    assert not any("/__" in fact["file"] for fact in facts.facts if fact["kind"] == "damage")
