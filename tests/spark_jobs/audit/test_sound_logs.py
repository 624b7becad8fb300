"""Nothing is found where nothing is wrong: in logs of ours, and in those that Kafka wrote."""

import shutil

import pytest

from odradek.storage.offset_checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS
from tests.support import logs
from tests.support.audits import WrittenLog, findings
from tests.support.recorded_directories import (
    LEFT,
    RECOVERED,
    RecordedDirectory,
    names_of_recorded_directories,
)
from tests.support.recorded_producers import PRODUCER_SNAPSHOTS, names_of_recorded_producers

RECORDED = names_of_recorded_directories()
SOUND = [name for name in RECORDED if not name.endswith("-damaged")]
DAMAGED = [name for name in RECORDED if name.endswith("-damaged")]


def test_a_log_of_ours_that_was_closed(tmp_path):
    written = WrittenLog(tmp_path)
    assert len(written.logs) > 3
    assert written.files(".txnindex") != []
    assert findings(tmp_path) == []


def test_a_log_of_ours_that_is_being_written_to(tmp_path):
    """Indexes have room ahead, the checkpoints are behind, and epochs are not written down."""
    log = logs.opened(tmp_path / "events-0", segment_bytes=3_000, index_interval_bytes=150)
    for number in range(60):
        logs.append(log, b"v" * 40, timestamp=logs.NOW_MS + number, leader_epoch=number // 20)
    HIGH_WATERMARKS.write(tmp_path, {logs.PARTITION: 50})
    RECOVERY_POINTS.write(tmp_path, {logs.PARTITION: 0})
    assert findings(tmp_path) == []
    log.close(now_ms=logs.NOW_MS)


def test_a_directory_without_checkpoints(tmp_path):
    WrittenLog(tmp_path)
    for path in tmp_path.glob("*-checkpoint"):
        path.unlink()
    assert findings(tmp_path) == []


def test_a_partitions_directory_alone(tmp_path):
    written = WrittenLog(tmp_path)
    assert findings(written.partition) == []


@pytest.mark.parametrize("name", SOUND)
def test_directories_that_kafka_left_and_that_it_had_recovered(name, tmp_path):
    RecordedDirectory.unpack(name, tmp_path)
    assert findings(tmp_path / LEFT) == []
    assert findings(tmp_path / RECOVERED) == []


@pytest.mark.parametrize("name", DAMAGED)
def test_directories_that_kafka_mended_are_sound_again(name, tmp_path):
    RecordedDirectory.unpack(name, tmp_path)
    assert findings(tmp_path / LEFT) != []
    assert findings(tmp_path / RECOVERED) == []


@pytest.mark.parametrize("name", names_of_recorded_producers())
def test_producer_snapshots_that_kafka_wrote_agree_with_its_batches(name, tmp_path):
    shutil.copytree(PRODUCER_SNAPSHOTS / name, tmp_path / "events-0")
    assert {each.file.rsplit(".")[-1] for each in findings(tmp_path / "events-0")} <= {
        "index",  # which were not recorded
        "timeindex",
        "txnindex",
    }


def test_a_topic_may_have_the_ending_of_a_file_in_its_name(tmp_path):
    written = WrittenLog(tmp_path / "kafka.logs")
    written.partition.rename(written.path / "app.log.index-0")
    assert findings(written.path) == []
