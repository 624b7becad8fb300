"""What must be synced so that the records before an offset survive a power cut."""

import os

import pytest

from odradek.storage import files
from odradek.storage.deletion import remove
from odradek.storage.log_truncation import truncate, truncate_fully
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
    """The names of what has been synced, in order; a directory's is '/'."""
    names = []
    fsync, sync_directory = files.system.fsync, files.system.sync_directory

    def note_file(descriptor):
        inode = os.fstat(descriptor).st_ino
        names.extend(path.name for path in directory.iterdir() if path.stat().st_ino == inode)
        fsync(descriptor)

    def note_directory(path):
        names.append("/")
        sync_directory(path)

    monkeypatch.setattr(files.system, "fsync", note_file)
    monkeypatch.setattr(files.system, "sync_directory", note_directory)
    return names


def run(log, plan):
    plan.run()
    log.flushed(plan, now_ms=NOW_MS)


def name(base_offset, ending):
    return f"{base_offset:020}{ending}"


class TestWhatIsSynced:
    def test_all_files_of_a_segment_and_then_the_names(self, log, synced):
        append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        end_transaction(log, producer_id=7, commit=False)
        log.plan_flush().run()
        files_of_segment = [".log", ".index", ".timeindex", ".txnindex"]
        assert synced[:4] == [name(0, ending) for ending in files_of_segment]
        assert synced[-1] == "/"
        assert "leader-epoch-checkpoint.tmp" in synced

    def test_only_segments_that_have_not_been(self, log, synced):
        for _ in range(3):
            append(log, b"a")
            log.roll(now_ms=NOW_MS)
        for _ in range(2):
            # The first of these syncs the segment before again: it may have been sealed since.
            run(log, log.plan_flush())
            append(log, b"b")
        synced.clear()
        run(log, log.plan_flush())
        assert {each.split(".")[0] for each in synced if each != "/"} == {name(3, "")}

    def test_not_the_active_segment_if_only_the_sealed_ones_are_due(self, log, synced):
        append(log, b"a")
        log.roll(now_ms=NOW_MS)
        append(log, b"b")
        run(log, log.plan_flush(up_to=log.segments.active.base_offset))
        assert name(0, ".log") in synced
        assert name(1, ".log") not in synced
        assert (log.recovery_point, log.end_offset) == (1, 2)

    def test_an_empty_segment_at_the_end_is_as_it_tells_what_comes_next(self, log, synced):
        append(log, b"a")
        log.roll(now_ms=NOW_MS)
        run(log, log.plan_flush())
        assert name(1, ".log") in synced

    def test_a_snapshot_that_a_roll_left_is_once(self, log, synced):
        append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        log.roll(now_ms=NOW_MS)
        run(log, log.plan_flush())
        run(log, log.plan_flush())
        assert synced.count(name(1, ".snapshot")) == 1

    def test_an_empty_log_can_be_flushed(self, log):
        run(log, log.plan_flush())
        assert log.recovery_point == 0


class TestWhatHappensMeanwhile:
    def test_what_is_appended_is_not_covered(self, log):
        append(log, b"a")
        plan = log.plan_flush()
        append(log, b"b")
        run(log, plan)
        assert (log.recovery_point, log.end_offset, log.last_flush_ms) == (1, 2, NOW_MS)

    def test_a_roll_changes_nothing(self, log):
        append(log, b"a")
        plan = log.plan_flush()
        log.roll(now_ms=NOW_MS)
        append(log, b"b")
        run(log, plan)
        assert log.recovery_point == 1

    def test_segments_may_be_removed(self, directory):
        log = opened(directory, retention_bytes=0)
        append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        log.roll(now_ms=NOW_MS)
        append(log, b"b")
        plan = log.plan_flush()
        remove(outlived_segments(log))
        run(log, plan)
        assert log.recovery_point == 2

    @pytest.mark.parametrize("cuts", [(2,), (1, 5), (3, 1)])
    def test_a_truncation_ends_what_is_covered(self, log, cuts):
        for _ in range(4):
            append(log, b"a")
        plan = log.plan_flush()
        for cut in cuts:
            truncate(log, cut, now_ms=NOW_MS)
            for _ in range(6):
                append(log, b"b")
        run(log, plan)
        assert log.recovery_point == min(cuts)

    def test_a_log_that_began_anew_is_covered_by_no_older_plan(self, log):
        for _ in range(4):
            append(log, b"a")
        plan = log.plan_flush()
        truncate_fully(log, 2)
        append(log, b"b", b"c", b"d")
        run(log, plan)
        assert log.recovery_point <= 2

    def test_an_older_plan_takes_nothing_back(self, log):
        append(log, b"a")
        older = log.plan_flush()
        append(log, b"b")
        run(log, log.plan_flush())
        run(log, older)
        assert log.recovery_point == 2


def test_a_failing_sync_covers_nothing(log):
    append(log, b"a")
    with FaultyDisk() as disk:
        log.plan_flush().run()
    for fail_at in range(1, disk.changes + 1):
        log.epochs.assign(fail_at, start_offset=log.end_offset)
        with FaultyDisk(fail_at=fail_at), pytest.raises(OSError, match="Input/output"):
            log.flush(now_ms=NOW_MS)
        assert log.recovery_point == 0


@pytest.mark.parametrize("seed", range(10))
def test_what_a_plan_covers_survives_a_power_cut(directory, seed):
    settings = {"segment_bytes": 300, "index_interval_bytes": 0}
    directory.mkdir()
    with PowerCut(directory, seed) as disk:
        log = opened(directory, **settings)
        for number in range(8):
            append(log, b"%d" % number + bytes(50), leader_epoch=number // 3)
            if number % 3 == seed % 3:
                run(log, log.plan_flush())
        recovery_point = log.recovery_point
        log.abandon()
        disk.cut()
        again = recovered(directory, recovery_point=recovery_point, **settings)
    found = {record.offset: record.value[:1] for record in records_from(again)}
    for offset in range(recovery_point):
        assert found[offset] == b"%d" % offset, str(disk)
        assert again.epochs.epoch_of(offset) == offset // 3, str(disk)


def test_snapshots_wait_for_a_flush_that_is_carried_out(tmp_path):
    log = opened(tmp_path / "events-0", segment_bytes=200)
    for number in range(3):
        append(log, bytes(100), producer_id=1, producer_epoch=0, base_sequence=number)
    abandoned = log.plan_flush()
    plan = log.plan_flush()
    assert len(plan.snapshots) == 2
    assert plan.snapshots == abandoned.snapshots
    plan.run()
    log.flushed(plan, now_ms=NOW_MS)
    assert log.plan_flush().snapshots == ()
