"""Compacted segments take the place of the old ones, and no crash on the way does harm."""

import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count, pairwise
from multiprocessing import get_context

import pytest

from odradek.storage.cleaner.compaction import clean
from odradek.storage.cleaner.swap import Swap, swap
from odradek.storage.deletion import remove
from odradek.storage.paths import Content, Stage, file_named
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
    """Eight segments, tombstones, an aborted and a committed transaction."""
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
    log.abandon()
    return copy, plan


@pytest.fixture
def directory(closed_log, tmp_path):
    return shutil.copytree(closed_log, tmp_path / "events-0")


def plan_for(log):
    """One replacement for several segments, and others after it."""
    return clean(task_of(log, segment_bytes_max=1000, delete_retention_ms=0))


def compacted(directory):
    log = opened(directory, **SETTINGS)
    old = swap(log, plan_for(log))
    remove(old)
    return log


def names(directory, *stages):
    found = [file_named(path.name) for path in directory.iterdir()]
    return sorted(str(name) for name in found if name is not None and name.stage in stages)


def test_the_log_reads_from_the_new_segments(directory):
    log = opened(directory, **SETTINGS)
    before = base_offsets(log)
    plan = plan_for(log)
    assert [len(each.replaced) > 1 for each in plan.replacements].count(True) >= 2
    swap(log, plan)
    assert base_offsets(log) == [*(each.base_offset for each in plan.replacements), before[-1]]
    assert [record.offset for record in committed_records(log)][-1] == 28
    assert names(directory, Stage.CLEANED, Stage.SWAP) == []


def test_the_old_segments_wait_for_their_removal(directory):
    log = opened(directory, **SETTINGS)
    before = base_offsets(log)
    old = swap(log, plan_for(log))
    assert [segment.base_offset for segment in old] == before[:-1]
    assert [name for name in names(directory, Stage.DELETED) if ".log" in name] == [
        f"{offset:020}.log.deleted" for offset in before[:-1]
    ]
    remove(old)
    assert names(directory, Stage.DELETED) == []


def test_producer_snapshots_go_with_the_segments_that_are_no_more(directory):
    log = opened(directory, **SETTINGS)
    swap(log, plan_for(log))
    snapshots = [name for name in names(directory, Stage.IN_USE) if name.endswith(".snapshot")]
    assert {int(name[:20]) for name in snapshots} <= {*base_offsets(log), log.end_offset}
    assert log.producers.snapshots.newest == log.end_offset


def test_a_region_that_was_lent_before_stays_readable(directory):
    log = opened(directory, **SETTINGS)
    region = log.read(0, max_bytes=10**6, up_to=log.end_offset)
    before = bytes_of(region)
    remove(swap(log, plan_for(log)))
    assert bytes_of(region) == before


def test_the_log_can_be_read_between_any_two_steps(directory):
    log = opened(directory, **SETTINGS)
    expected = latest(log)
    for replacement in plan_for(log).replacements:
        swapped = Swap(log, replacement)
        for step in (swapped.stage, swapped.publish, swapped.finish, swapped.settle):
            step()
            assert latest(log) == expected
            assert log.read(0, max_bytes=100, up_to=log.end_offset)


def test_what_is_appended_meanwhile_is_not_touched(directory):
    log = opened(directory, **SETTINGS)
    plan = plan_for(log)
    offset = append_pairs(log, (b"a", b"later"))
    swap(log, plan)
    assert stored_pairs(log)[offset] == (b"a", b"later")


def test_s9_a_worker_process_compacts_while_the_log_is_written_and_read(directory):
    log = opened(directory, **SETTINGS)
    before = latest(log)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as workers:
        planned = workers.submit(clean, task_of(log, segment_bytes_max=1000))
        while not planned.done():
            offset = append_pairs(log, (b"later", b"value"))
            assert latest(log) == {**before, b"later": b"value"}
        swap(log, planned.result())
    assert latest(log) == {**before, b"later": b"value"}
    assert stored_pairs(log)[offset] == (b"later", b"value")


def test_segments_that_have_changed_since_are_not_replaced(directory):
    log = opened(directory, **SETTINGS)
    plan = plan_for(log)
    log.segments.remove([log.segments.first])
    with pytest.raises(AssertionError, match="has changed"):
        swap(log, plan)


def test_the_new_segment_opens_like_any_other(directory):
    log = compacted(directory)
    pairs, batches = stored_pairs(log), len(stored_batches(log))
    log.close(now_ms=NOW_MS)
    again = opened(directory, **SETTINGS)
    assert (stored_pairs(again), len(stored_batches(again))) == (pairs, batches)
    for segment in again.segments:
        assert segment.path(Content.OFFSET_INDEX).exists() or not segment.size_bytes


@pytest.fixture(scope="module")
def ends(closed_log, tmp_path_factory):
    """What a log is before and after, and how many changes of files lie between."""
    copy = shutil.copytree(closed_log, tmp_path_factory.mktemp("ends") / "events-0")
    before = facts(opened(copy, **SETTINGS))
    with FaultyDisk() as disk:
        log = compacted(copy)
    return before, facts(log), disk.changes


class TestCrashes:
    def check(self, directory, before, after):
        """Some segments may be new and others old; all that counts is there, once."""
        log = recovered(directory, **SETTINGS)
        assert names(directory, Stage.CLEANED, Stage.SWAP, Stage.DELETED) == []
        assert latest(log) == before["latest"] == after["latest"]
        assert set(after["pairs"]) <= set(stored_pairs(log)) <= set(before["pairs"])
        assert [record.offset for record in committed_records(log)] == sorted(
            offset for offset in stored_pairs(log) if offset not in before["aborted"]
        )
        assert known(log) == before["producers"]
        assert log.end_offset == before["end"]
        segments = list(log.segments)
        for segment, following in pairwise(segments):
            assert segment.next_offset() <= following.base_offset
        log.abandon()

    @pytest.mark.parametrize("seed", range(SEEDS))
    def test_a_kill_before_any_change_of_a_file_is_made_good(
        self, closed_log, tmp_path, ends, seed
    ):
        before, after, changes = ends
        for number in range(1 + seed, changes + 1, SEEDS):
            copy = shutil.copytree(closed_log, tmp_path / str(number) / "events-0")
            with FaultyDisk(fail_at=number, persists=True), pytest.raises(OSError, match="Input"):
                compacted(copy)
            self.check(copy, before, after)

    @pytest.mark.parametrize("seed", range(SEEDS))
    def test_a_power_cut_before_any_change_of_a_file_is_made_good(
        self, planned, tmp_path, ends, seed
    ):
        for number in count(1):
            root = tmp_path / str(number)
            log, plan = ready_to_swap(planned, root / "events-0")
            with PowerCut(root, seed * 1000 + number, off_at=number) as disk:
                is_done = try_to_swap(log, plan)
                disk.cut()
                check_with_story(partial(self.check, log.directory, *ends[:2]), [str(disk)])
            if is_done:
                break

    @pytest.mark.parametrize("seed", range(SEEDS))
    def test_a_second_power_cut_during_recovery_is_made_good(self, planned, tmp_path, ends, seed):
        for number in range(1 + seed, 100, SEEDS):
            root = tmp_path / str(number)
            log, plan = ready_to_swap(planned, root / "events-0")
            with PowerCut(root, seed * 1000 + number, off_at=number) as first:
                is_done = try_to_swap(log, plan)
                first.cut()
            with PowerCut(root, number, off_at=1 + number % 7) as second:
                try_to_recover(log.directory)
                second.cut()
                check_with_story(
                    partial(self.check, log.directory, *ends[:2]), [str(first), str(second)]
                )
            if is_done:
                break


def ready_to_swap(planned, directory):
    """A log, with nothing open, in whose directory compaction has just written its segments."""
    source, plan = planned
    shutil.copytree(source, directory, ignore=shutil.ignore_patterns("*.cleaned"))
    log = opened(directory, **SETTINGS)
    for segment in log.segments:
        segment.abandon()
    for path in source.glob("*.cleaned"):
        shutil.copy(path, directory)
    moved = [replace(replacement, directory=directory) for replacement in plan.replacements]
    return log, replace(plan, replacements=tuple(moved))


def try_to_swap(log, plan):
    """Whether the power lasted."""
    try:
        swap(log, plan)
    except PowerIsOff:
        return False
    return True


def try_to_recover(directory):
    try:
        recovered(directory, **SETTINGS).abandon()
    except PowerIsOff:
        return False
    return True


def check_with_story(check, story):
    try:
        check()
    except AssertionError as failure:
        failure.add_note("\n".join(story))
        raise


def latest(log):
    """The last value of every key that a reader with read_committed is left with."""
    values = {record.key: record.value for record in committed_records(log)}
    return {key: value for key, value in values.items() if value is not None}


def known(log):
    return {
        producer_id: (state.epoch, state.last_sequence, state.transaction_first_offset)
        for producer_id, state in log.producers.states.items()
    }


def facts(log):
    committed = {record.offset for record in committed_records(log)}
    return {
        "pairs": stored_pairs(log),
        "latest": latest(log),
        "aborted": set(stored_pairs(log)) - committed,
        "producers": known(log),
        "end": log.end_offset,
    }
