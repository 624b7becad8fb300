"""The audit reports nothing for intact logs of Odradek and of Kafka."""

import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from odradek.spark_jobs import integrity_audit
from odradek.spark_jobs.audit import log_audit
from odradek.spark_jobs.audit.batch_rows import read_segment
from odradek.spark_jobs.audit.directories import plan
from odradek.spark_jobs.integrity_audit import group_into_tasks
from odradek.storage.offset_checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS
from tests.interop.data_directory_damage import damage_by_partition
from tests.support import logs
from tests.support.audits import WrittenLog, findings
from tests.support.batches import batch_of
from tests.support.recorded_directories import (
    LEFT,
    RECOVERED,
    RecordedDirectory,
    names_of_recorded_directories,
)
from tests.support.recorded_producers import PRODUCER_SNAPSHOTS, names_of_recorded_producers
from tests.support.scans import LogDirectory

RECORDED = names_of_recorded_directories()
INTACT = [name for name in RECORDED if not name.endswith("-damaged")]
DAMAGED = [name for name in RECORDED if name.endswith("-damaged")]


def test_closed_log_has_no_findings(tmp_path):
    written_log = WrittenLog(tmp_path)
    assert len(written_log.logs) > 3
    assert written_log.files(".txnindex") != []
    assert findings(tmp_path) == []


def test_log_that_is_being_appended_to_has_no_findings(tmp_path):
    """Indexes are preallocated, checkpoints lag behind, and leader epochs are not flushed."""
    log = logs.opened(tmp_path / "events-0", segment_bytes=3_000, index_interval_bytes=150)
    for number in range(60):
        logs.append(log, b"v" * 40, timestamp=logs.NOW_MS + number, leader_epoch=number // 20)
    HIGH_WATERMARKS.write(tmp_path, {logs.PARTITION: 50})
    RECOVERY_POINTS.write(tmp_path, {logs.PARTITION: 0})
    assert findings(tmp_path) == []
    log.close(now_ms=logs.NOW_MS)


def test_directory_without_checkpoints_has_no_findings(tmp_path):
    WrittenLog(tmp_path)
    for path in tmp_path.glob("*-checkpoint"):
        path.unlink()
    assert findings(tmp_path) == []


def test_single_partition_directory_has_no_findings(tmp_path):
    written_log = WrittenLog(tmp_path)
    assert findings(written_log.partition) == []


@pytest.mark.parametrize("name", INTACT)
def test_directories_of_kafka_before_and_after_recovery_have_no_findings(name, tmp_path):
    RecordedDirectory.unpack(name, tmp_path)
    assert findings(tmp_path / LEFT) == []
    assert findings(tmp_path / RECOVERED) == []


#: Damage that the files alone reveal. A truncated log may never have been longer according to its
#: checkpoints; zeros may be preallocated space; snapshots may not have been taken; and compaction
#: that was interrupted is valid, since the suffixes of its files mark it.
DETECTABLE = {"_flip_bit": ".log", "_append_noise": ".log", "_lose_indexes": ".index"}
UNDETECTABLE = {"_append_zeros", "_lose_snapshots", "discarded", "swapped", "half-swapped"}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_directories_have_findings_until_kafka_recovers_them(name, tmp_path):
    RecordedDirectory.unpack(name, tmp_path)
    suffixes = defaultdict(list)
    for finding in findings(tmp_path / LEFT):
        suffixes[Path(finding.file).parent.name].append(Path(finding.file).suffix)
    kinds = damage_by_partition(tmp_path / LEFT)
    assert set(suffixes) <= set(kinds)
    for partition, kind in kinds.items():
        if kind in DETECTABLE:
            assert DETECTABLE[kind] in suffixes[partition], (partition, kind)
        if kind in UNDETECTABLE:
            assert partition not in suffixes, (partition, kind)
    assert findings(tmp_path / RECOVERED) == []


@pytest.mark.parametrize("name", names_of_recorded_producers())
def test_producer_snapshots_of_kafka_agree_with_its_batches(name, tmp_path):
    shutil.copytree(PRODUCER_SNAPSHOTS / name, tmp_path / "events-0")
    assert {finding.file.rsplit(".")[-1] for finding in findings(tmp_path / "events-0")} <= {
        "index",  # not part of the recording
        "timeindex",
        "txnindex",
    }


def test_topic_name_may_contain_a_file_suffix(tmp_path):
    written_log = WrittenLog(tmp_path / "kafka.logs")
    written_log.partition.rename(written_log.path / "app.log.index-0")
    assert findings(written_log.path) == []


def test_small_partitions_share_a_task(tmp_path, monkeypatch):
    names = [f"events-{number}" for number in range(5)]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log").write_bytes(bytes(100))
    units = plan((str(tmp_path),), lambda topic, partition: True).partitions
    assert [len(task) for task in group_into_tasks(units)] == [5]
    monkeypatch.setattr(integrity_audit, "OPEN_COST_BYTES", 0)
    monkeypatch.setattr(integrity_audit, "TASK_BYTES", 200)
    shared = group_into_tasks(units)
    assert [[unit.partition for unit in task] for task in shared] == [[0, 1], [2, 3], [4]]
    assert group_into_tasks([]) == []


class TestWithARunningBroker:
    def batches(self, start, end):
        return [batch_of(b"%d" % offset, base_offset=offset) for offset in range(start, end)]

    @pytest.fixture
    def directory(self, tmp_path):
        directory = LogDirectory(tmp_path)
        for base in (0, 5, 10):
            directory.write(base, self.batches(base, base + 5), indexed=True)
        return directory

    def on_first_read(self, monkeypatch, action):
        """Run the action after the directory was listed and the indexes were read."""
        pending = [action]

        def read(*arguments):
            if pending:
                pending.pop()()
            return read_segment(*arguments)

        monkeypatch.setattr(log_audit, "read_segment", read)

    def test_segments_merged_by_compaction_during_the_audit_are_accepted(
        self, directory, monkeypatch
    ):
        def merge():
            for path in directory.partition.glob("00000000000000000005.*"):
                path.unlink()
            directory.write(0, self.batches(0, 10), indexed=True)

        self.on_first_read(monkeypatch, merge)
        assert findings(directory.path) == []

    def test_segments_deleted_by_retention_during_the_audit_are_accepted(
        self, directory, monkeypatch
    ):
        def remove():
            for name in ("00000000000000000000", "00000000000000000005"):
                for path in directory.partition.glob(f"{name}.*"):
                    path.unlink()

        self.on_first_read(monkeypatch, remove)
        assert findings(directory.path) == []

    def test_partition_deleted_during_the_audit_is_a_warning(self, directory, monkeypatch):
        self.on_first_read(monkeypatch, lambda: shutil.rmtree(directory.partition))
        warnings = findings(directory.path)
        assert [finding.severity for finding in warnings] == ["warning"] * 2  # the first was open
        assert {finding.what for finding in warnings} == {
            "deleted since the audit began, as by retention or compaction: repeat the audit"
        }
