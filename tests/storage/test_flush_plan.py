"""Which files a flush syncs, and which records it then protects from a power cut."""

import os

import pytest

from odradek.storage import files
from odradek.storage.log_truncation import truncate_fully_and_start_at, truncate_to
from odradek.storage.segment_deletion import delete_segment_files
from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import (
    NOW_MS,
    append,
    end_transaction,
    opened,
    outlived_segments,
    records_from,
    recovered,
)
from tests.support.power_cut import PowerCut


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "events-0"


@pytest.fixture
def log(directory):
    return opened(directory, index_interval_bytes=0)


@pytest.fixture
def synced(directory, monkeypatch):
    """The names of synced files, in order; '/' stands for the directory."""
    names = []
    fsync, sync_directory = files.system.fsync, files.system.sync_directory

    def record_file(descriptor):
        inode = os.fstat(descriptor).st_ino
        names.extend(path.name for path in directory.iterdir() if path.stat().st_ino == inode)
        fsync(descriptor)

    def record_directory(path):
        names.append("/")
        sync_directory(path)

    monkeypatch.setattr(files.system, "fsync", record_file)
    monkeypatch.setattr(files.system, "sync_directory", record_directory)
    return names


def run(log, plan):
    plan.run()
    log.mark_flushed(plan, now_ms=NOW_MS)


def name(base_offset, ending):
    return f"{base_offset:020}{ending}"


class TestSyncedFiles:
    def test_all_files_of_a_segment_then_the_directory(self, log, synced):
        append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        end_transaction(log, producer_id=7, commit=False)
        log.plan_flush().run()
        files_of_segment = [".log", ".index", ".timeindex", ".txnindex"]
        assert synced[:4] == [name(0, ending) for ending in files_of_segment]
        assert synced[-1] == "/"
        assert "leader-epoch-checkpoint.tmp" in synced

    def test_flushed_segments_are_not_synced_again(self, log, synced):
        for _ in range(3):
            append(log, b"a")
            log.roll(now_ms=NOW_MS)
        for _ in range(2):
            # The first flush syncs the previous segment again, as it may have been sealed since.
            run(log, log.plan_flush())
            append(log, b"b")
        synced.clear()
        run(log, log.plan_flush())
        assert {synced_name.split(".")[0] for synced_name in synced if synced_name != "/"} == {
            name(3, "")
        }

    def test_flush_up_to_the_active_segment_does_not_sync_it(self, log, synced):
        append(log, b"a")
        log.roll(now_ms=NOW_MS)
        append(log, b"b")
        run(log, log.plan_flush(flush_offset=log.segments.active.base_offset))
        assert name(0, ".log") in synced
        assert name(1, ".log") not in synced
        assert (log.recovery_point, log.log_end_offset) == (1, 2)

    def test_empty_active_segment_is_synced(self, log, synced):
        append(log, b"a")
        log.roll(now_ms=NOW_MS)
        run(log, log.plan_flush())
        assert name(1, ".log") in synced

    def test_producer_snapshot_of_a_roll_is_synced_once(self, log, synced):
        append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        log.roll(now_ms=NOW_MS)
        run(log, log.plan_flush())
        run(log, log.plan_flush())
        assert synced.count(name(1, ".snapshot")) == 1

    def test_empty_log_can_be_flushed(self, log):
        run(log, log.plan_flush())
        assert log.recovery_point == 0


class TestConcurrentChanges:
    def test_later_appends_are_not_covered(self, log):
        append(log, b"a")
        plan = log.plan_flush()
        append(log, b"b")
        run(log, plan)
        assert (log.recovery_point, log.log_end_offset, log.last_flush_ms) == (1, 2, NOW_MS)

    def test_roll_does_not_change_what_is_covered(self, log):
        append(log, b"a")
        plan = log.plan_flush()
        log.roll(now_ms=NOW_MS)
        append(log, b"b")
        run(log, plan)
        assert log.recovery_point == 1

    def test_segments_may_be_deleted_during_a_flush(self, directory):
        log = opened(directory, retention_bytes=0)
        append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        log.roll(now_ms=NOW_MS)
        append(log, b"b")
        plan = log.plan_flush()
        delete_segment_files(outlived_segments(log))
        run(log, plan)
        assert log.recovery_point == 2

    @pytest.mark.parametrize("truncations", [(2,), (1, 5), (3, 1)])
    def test_recovery_point_does_not_pass_a_truncation(self, log, truncations):
        for _ in range(4):
            append(log, b"a")
        plan = log.plan_flush()
        for offset in truncations:
            truncate_to(log, offset, now_ms=NOW_MS)
            for _ in range(6):
                append(log, b"b")
        run(log, plan)
        assert log.recovery_point == min(truncations)

    def test_older_plan_does_not_cover_a_fully_truncated_log(self, log):
        for _ in range(4):
            append(log, b"a")
        plan = log.plan_flush()
        truncate_fully_and_start_at(log, 2)
        append(log, b"b", b"c", b"d")
        run(log, plan)
        assert log.recovery_point <= 2

    def test_older_plan_does_not_lower_the_recovery_point(self, log):
        append(log, b"a")
        older_plan = log.plan_flush()
        append(log, b"b")
        run(log, log.plan_flush())
        run(log, older_plan)
        assert log.recovery_point == 2


def test_failed_sync_does_not_advance_the_recovery_point(log):
    append(log, b"a")
    with FaultyDisk() as disk:
        log.plan_flush().run()
    for fail_at in range(1, disk.changes + 1):
        log.leader_epoch_cache.assign(fail_at, start_offset=log.log_end_offset)
        with FaultyDisk(fail_at=fail_at), pytest.raises(OSError, match="Input/output"):
            log.flush(now_ms=NOW_MS)
        assert log.recovery_point == 0


@pytest.mark.parametrize("seed", range(10))
def test_records_before_the_recovery_point_survive_a_power_cut(directory, seed):
    settings = {"segment_bytes": 300, "index_interval_bytes": 0}
    directory.mkdir()
    with PowerCut(directory, seed) as disk:
        log = opened(directory, **settings)
        for number in range(8):
            append(log, b"%d" % number + bytes(50), leader_epoch=number // 3)
            if number % 3 == seed % 3:
                run(log, log.plan_flush())
        recovery_point = log.recovery_point
        log.close_handlers()
        disk.cut()
        reopened = recovered(directory, recovery_point=recovery_point, **settings)
    values = {record.offset: record.value[:1] for record in records_from(reopened)}
    for offset in range(recovery_point):
        assert values[offset] == b"%d" % offset, str(disk)
        assert reopened.leader_epoch_cache.epoch_for_offset(offset) == offset // 3, str(disk)


def test_snapshots_stay_unflushed_until_a_plan_runs(tmp_path):
    log = opened(tmp_path / "events-0", segment_bytes=200)
    for number in range(3):
        append(log, bytes(100), producer_id=1, producer_epoch=0, base_sequence=number)
    abandoned_plan = log.plan_flush()
    plan = log.plan_flush()
    assert len(plan.snapshot_paths) == 2
    assert plan.snapshot_paths == abandoned_plan.snapshot_paths
    plan.run()
    log.mark_flushed(plan, now_ms=NOW_MS)
    assert log.plan_flush().snapshot_paths == ()
