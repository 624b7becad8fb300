"""Cleaned segments replace the old ones, and a crash at any step does no harm."""

import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count, pairwise
from multiprocessing import get_context

import pytest

from odradek.storage.cleaner.cleaner import clean
from odradek.storage.cleaner.segment_swap import SegmentSwap, swap_segments
from odradek.storage.paths import FileStage, LogFileType, parse_file_name
from odradek.storage.segment_deletion import delete_segment_files
from tests.support.compaction import (
    append_pairs,
    base_offsets,
    committed_records,
    sealed,
    stored_batches,
    stored_pairs,
    task_of,
)
from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import NOW_MS, bytes_of, end_transaction, opened, recovered
from tests.support.power_cut import PowerCut, PowerIsOff

SETTINGS = {
    "cleanup_policy": ("compact",),
    "segment_bytes": 300,
    "index_interval_bytes": 50,
    "segment_index_bytes": 120,
}
SEEDS = 6


@pytest.fixture(scope="module")
def closed_log(tmp_path_factory):
    """A log of eight segments with tombstones, an aborted and a committed transaction."""
    directory = tmp_path_factory.mktemp("made") / "events-0"
    log = opened(directory, **SETTINGS)
    for number in range(12):
        append_pairs(log, (b"a", b"%d" % number + bytes(60)), (b"%d" % (number % 5), b"1"))
    append_pairs(log, (b"1", None), (b"3", None))
    for producer_id, commit in ((5, False), (6, True)):
        fields = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        append_pairs(log, (b"a", b"%d" % producer_id), producer_id=producer_id, **fields)
        end_transaction(log, producer_id=producer_id, commit=commit)
    sealed(log).close(now_ms=NOW_MS)
    return directory


@pytest.fixture(scope="module")
def planned(closed_log, tmp_path_factory):
    copy = shutil.copytree(closed_log, tmp_path_factory.mktemp("planned") / "events-0")
    log = opened(copy, **SETTINGS)
    plan = plan_for(log)
    log.close_handlers()
    return copy, plan


@pytest.fixture
def directory(closed_log, tmp_path):
    return shutil.copytree(closed_log, tmp_path / "events-0")


def plan_for(log):
    """Return a plan with one replacement for several segments, and others after it."""
    return clean(task_of(log, segment_bytes_max=1000, delete_retention_ms=0))


def compact_log(directory):
    log = opened(directory, **SETTINGS)
    old = swap_segments(log, plan_for(log))
    delete_segment_files(old)
    return log


def names(directory, *stages):
    file_names = [parse_file_name(path.name) for path in directory.iterdir()]
    return sorted(str(name) for name in file_names if name is not None and name.stage in stages)


def test_log_reads_from_the_new_segments(directory):
    log = opened(directory, **SETTINGS)
    before = base_offsets(log)
    plan = plan_for(log)
    assert [len(replacement.old_segments) > 1 for replacement in plan.replacements].count(True) >= 2
    swap_segments(log, plan)
    assert base_offsets(log) == [
        *(replacement.base_offset for replacement in plan.replacements),
        before[-1],
    ]
    assert [record.offset for record in committed_records(log)][-1] == 28
    assert names(directory, FileStage.CLEANED, FileStage.SWAP) == []


def test_old_segments_are_renamed_until_they_are_deleted(directory):
    log = opened(directory, **SETTINGS)
    before = base_offsets(log)
    old = swap_segments(log, plan_for(log))
    assert [segment.base_offset for segment in old] == before[:-1]
    assert [name for name in names(directory, FileStage.DELETED) if ".log" in name] == [
        f"{offset:020}.log.deleted" for offset in before[:-1]
    ]
    delete_segment_files(old)
    assert names(directory, FileStage.DELETED) == []


def test_producer_snapshots_of_replaced_segments_are_deleted(directory):
    log = opened(directory, **SETTINGS)
    swap_segments(log, plan_for(log))
    snapshots = [name for name in names(directory, FileStage.IN_USE) if name.endswith(".snapshot")]
    assert {int(name[:20]) for name in snapshots} <= {*base_offsets(log), log.log_end_offset}
    assert log.producer_state_manager.snapshots.latest_offset == log.log_end_offset


def test_file_region_read_before_the_swap_stays_readable(directory):
    log = opened(directory, **SETTINGS)
    region = log.read(0, max_bytes=10**6, max_offset=log.log_end_offset)
    before = bytes_of(region)
    delete_segment_files(swap_segments(log, plan_for(log)))
    assert bytes_of(region) == before


def test_log_can_be_read_between_any_two_steps(directory):
    log = opened(directory, **SETTINGS)
    expected = latest(log)
    for replacement in plan_for(log).replacements:
        swap = SegmentSwap(log, replacement)
        for step in (swap.stage, swap.publish, swap.finish, swap.complete):
            step()
            assert latest(log) == expected
            assert log.read(0, max_bytes=100, max_offset=log.log_end_offset)


def test_records_appended_during_the_cleaning_are_kept(directory):
    log = opened(directory, **SETTINGS)
    plan = plan_for(log)
    offset = append_pairs(log, (b"a", b"later"))
    swap_segments(log, plan)
    assert stored_pairs(log)[offset] == (b"a", b"later")


def test_s9_worker_process_cleans_while_the_log_is_appended_and_read(directory):
    log = opened(directory, **SETTINGS)
    before = latest(log)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as workers:
        planned = workers.submit(clean, task_of(log, segment_bytes_max=1000))
        while not planned.done():
            offset = append_pairs(log, (b"later", b"value"))
            assert latest(log) == {**before, b"later": b"value"}
        swap_segments(log, planned.result())
    assert latest(log) == {**before, b"later": b"value"}
    assert stored_pairs(log)[offset] == (b"later", b"value")


def test_changed_segments_are_not_replaced(directory):
    log = opened(directory, **SETTINGS)
    plan = plan_for(log)
    log.segments.remove([log.segments.first])
    with pytest.raises(AssertionError, match="segments have changed since"):
        swap_segments(log, plan)


def test_new_segments_can_be_reopened(directory):
    log = compact_log(directory)
    pairs, batches = stored_pairs(log), len(stored_batches(log))
    log.close(now_ms=NOW_MS)
    reopened = opened(directory, **SETTINGS)
    assert (stored_pairs(reopened), len(stored_batches(reopened))) == (pairs, batches)
    for segment in reopened.segments:
        assert segment.path(LogFileType.OFFSET_INDEX).exists() or not segment.size_bytes


@pytest.fixture(scope="module")
def ends(closed_log, tmp_path_factory):
    """The state before and after a compaction, and the number of file changes in between."""
    copy = shutil.copytree(closed_log, tmp_path_factory.mktemp("ends") / "events-0")
    before = log_state(opened(copy, **SETTINGS))
    with FaultyDisk() as disk:
        log = compact_log(copy)
    return before, log_state(log), disk.changes


class TestCrashes:
    def check(self, directory, before, after):
        """Some segments may be new and others old; every retained record is there once."""
        log = recovered(directory, **SETTINGS)
        assert names(directory, FileStage.CLEANED, FileStage.SWAP, FileStage.DELETED) == []
        assert latest(log) == before["latest"] == after["latest"]
        assert set(after["pairs"]) <= set(stored_pairs(log)) <= set(before["pairs"])
        assert [record.offset for record in committed_records(log)] == sorted(
            offset for offset in stored_pairs(log) if offset not in before["aborted"]
        )
        assert producer_states(log) == before["producers"]
        assert log.log_end_offset == before["end"]
        segments = list(log.segments)
        for segment, following in pairwise(segments):
            assert segment.read_next_offset() <= following.base_offset
        log.close_handlers()

    @pytest.mark.parametrize("seed", range(SEEDS))
    def test_log_recovers_from_a_kill_before_any_file_change(
        self, closed_log, tmp_path, ends, seed
    ):
        before, after, changes = ends
        for number in range(1 + seed, changes + 1, SEEDS):
            copy = shutil.copytree(closed_log, tmp_path / str(number) / "events-0")
            with FaultyDisk(fail_at=number, persists=True), pytest.raises(OSError, match="Input"):
                compact_log(copy)
            self.check(copy, before, after)

    @pytest.mark.parametrize("seed", range(SEEDS))
    def test_log_recovers_from_a_power_cut_before_any_file_change(
        self, planned, tmp_path, ends, seed
    ):
        for number in count(1):
            root = tmp_path / str(number)
            log, plan = ready_to_swap(planned, root / "events-0")
            with PowerCut(root, seed * 1000 + number, off_at=number) as disk:
                is_done = try_to_swap(log, plan)
                disk.cut()
                check_with_notes(partial(self.check, log.directory, *ends[:2]), [str(disk)])
            if is_done:
                break

    @pytest.mark.parametrize("seed", range(SEEDS))
    def test_log_recovers_from_a_second_power_cut_during_recovery(
        self, planned, tmp_path, ends, seed
    ):
        for number in range(1 + seed, 100, SEEDS):
            root = tmp_path / str(number)
            log, plan = ready_to_swap(planned, root / "events-0")
            with PowerCut(root, seed * 1000 + number, off_at=number) as first:
                is_done = try_to_swap(log, plan)
                first.cut()
            with PowerCut(root, number, off_at=1 + number % 7) as second:
                try_to_recover(log.directory)
                second.cut()
                check_with_notes(
                    partial(self.check, log.directory, *ends[:2]), [str(first), str(second)]
                )
            if is_done:
                break


def ready_to_swap(planned, directory):
    """Return a closed log in whose directory the cleaner has just written its segments."""
    source, plan = planned
    shutil.copytree(source, directory, ignore=shutil.ignore_patterns("*.cleaned"))
    log = opened(directory, **SETTINGS)
    for segment in log.segments:
        segment.close_handlers()
    for path in source.glob("*.cleaned"):
        shutil.copy(path, directory)
    moved = [replace(replacement, directory=directory) for replacement in plan.replacements]
    return log, replace(plan, replacements=tuple(moved))


def try_to_swap(log, plan):
    """Return whether the swap completed before the power cut."""
    try:
        swap_segments(log, plan)
    except PowerIsOff:
        return False
    return True


def try_to_recover(directory):
    try:
        recovered(directory, **SETTINGS).close_handlers()
    except PowerIsOff:
        return False
    return True


def check_with_notes(check, notes):
    try:
        check()
    except AssertionError as error:
        error.add_note("\n".join(notes))
        raise


def latest(log):
    """Return the last non-null value of every key that a read_committed consumer sees."""
    values = {record.key: record.value for record in committed_records(log)}
    return {key: value for key, value in values.items() if value is not None}


def producer_states(log):
    return {
        producer_id: (state.epoch, state.last_sequence, state.current_txn_first_offset)
        for producer_id, state in log.producer_state_manager.active_producers.items()
    }


def log_state(log):
    committed = {record.offset for record in committed_records(log)}
    return {
        "pairs": stored_pairs(log),
        "latest": latest(log),
        "aborted": set(stored_pairs(log)) - committed,
        "producers": producer_states(log),
        "end": log.log_end_offset,
    }
