"""A log can change while a disk thread flushes it.

The event loop can change the log before any system call of the disk thread, so each test makes a
change before each call in turn. A change that waits for the thread completes after it.
"""

from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial

import pytest

from odradek.storage import files
from odradek.storage.cleaner.cleaner import clean
from odradek.storage.cleaner.segment_swap import SegmentSwap, swap_segments
from odradek.storage.manager.disk_task import execute
from odradek.storage.segment_deletion import delete_segment_files
from odradek.storage.settings import TopicSettings
from tests.support import log_managers
from tests.support.compaction import task_of
from tests.support.log_managers import EVENTS, carry_all, managing, values_in
from tests.support.logs import NOW_MS, append, end_transaction

SETTINGS = {"segment_bytes": 400, "index_interval_bytes": 0, "file_delete_delay_ms": 0}
CALLS_MAX = 200
#: A change that takes longer than this waits for the flush.
WAITS_S = 0.5


class InterruptedCalls:
    """Replaces ``files.system`` and starts a change before the n-th call."""

    def __init__(self, call_number, start_change):
        self._system = files.system
        self._calls_left = call_number
        self._start_change = start_change
        self.change = None

    @property
    def is_changed(self):
        return self.change is not None

    def __getattr__(self, name):
        self._calls_left -= 1
        if self._calls_left == 0:
            files.system = self._system
            self.change = self._start_change()
            wait([self.change], timeout=WAITS_S)
            files.system = self
        return getattr(self._system, name)


@contextmanager
def interrupted_calls(call_number, change):
    system = files.system
    with ThreadPoolExecutor(1) as others:
        disk = files.system = InterruptedCalls(call_number, partial(others.submit, change))
        try:
            yield disk
            if disk.change is not None:
                disk.change.result()
        finally:
            files.system = system


def create_filled_log(path, **settings):
    """Create a log of several unflushed segments with all types of files."""
    manager = managing(path, **SETTINGS, **settings)
    hosted_log = manager.get_or_create_log(EVENTS, now_ms=NOW_MS)
    with hosted_log as log:
        for number in range(8):
            append(
                log,
                b"%d" % number + bytes(60),
                key=b"k%d" % (number % 2),
                leader_epoch=number,
                producer_id=7,
                producer_epoch=0,
                base_sequence=number,
                is_transactional=True,
            )
        end_transaction(log, producer_id=7, commit=False)
        log.roll(now_ms=NOW_MS)
        if log.settings.is_compacted:
            log.flush(now_ms=NOW_MS)  # Only flushed segments are compacted.
        append(log, b"last", key=b"last", leader_epoch=9)
    return manager, hosted_log


def retain(manager, hosted_log):
    settings = TopicSettings(**SETTINGS, retention_bytes=0)
    manager.configure("events", settings)
    assert len(log_managers.retain(manager)) > 2
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS))


def compact(manager, hosted_log):
    plan = clean(task_of(hosted_log.log))
    manager.maintenance.schedule_deletion(
        hosted_log, swap_segments(hosted_log.log, plan), now_ms=NOW_MS
    )
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS))


def truncate(manager, hosted_log):
    execute(manager.truncate(hosted_log, 3, now_ms=NOW_MS))
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS))
    with hosted_log as log:
        append(log, b"instead", leader_epoch=20)


def truncate_fully(manager, hosted_log):
    execute(manager.truncate_fully_and_start_at(hosted_log, 0, now_ms=NOW_MS))
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS))
    with hosted_log as log:
        append(log, b"anew", leader_epoch=20)


def roll(manager, hosted_log):
    with hosted_log as log:
        log.roll(now_ms=NOW_MS)
        append(log, b"more", leader_epoch=20)


CHANGES = {
    retain: {},
    compact: {"cleanup_policy": ("compact",)},
    truncate: {},
    truncate_fully: {},
    roll: {},
}


def names_below(path):
    return {path_entry.name for path_entry in path.iterdir()}


@pytest.mark.parametrize("change", CHANGES)
def test_change_during_a_flush_has_the_same_result_as_without(tmp_path, change):
    manager, hosted_log = create_filled_log(tmp_path / "alone", **CHANGES[change])
    change(manager, hosted_log)
    expected = values_in(hosted_log)
    hosted_log.log.flush(now_ms=NOW_MS)
    names = names_below(hosted_log.log.directory)
    for call_number in range(1, CALLS_MAX):
        root = tmp_path / str(call_number)
        manager, hosted_log = create_filled_log(root, **CHANGES[change])
        task = hosted_log.flush_task(now_ms=NOW_MS)
        with task, interrupted_calls(call_number, partial(change, manager, hosted_log)) as disk:
            task.run()
        if not disk.is_changed:
            break
        assert manager.directories.offline == []
        assert values_in(hosted_log) == expected
        execute(hosted_log.flush_task(now_ms=NOW_MS))
        assert hosted_log.log.recovery_point == hosted_log.log.log_end_offset
        assert names_below(hosted_log.log.directory) == names
        manager.close(now_ms=NOW_MS)
        restarted = managing(root, **SETTINGS, **CHANGES[change])
        assert values_in(restarted.find(EVENTS)) == expected
        restarted.close_handlers()
    assert 10 < call_number < CALLS_MAX - 1


@pytest.mark.parametrize("step", ["stage", "finish"])
def test_flush_during_a_swap_has_the_same_result_as_without(tmp_path, step):
    manager, hosted_log = create_filled_log(tmp_path / "alone", **CHANGES[compact])
    compact(manager, hosted_log)
    expected = values_in(hosted_log)
    hosted_log.log.flush(now_ms=NOW_MS)
    names = names_below(hosted_log.log.directory)
    for call_number in range(1, CALLS_MAX):
        manager, hosted_log = create_filled_log(tmp_path / str(call_number), **CHANGES[compact])
        task = hosted_log.flush_task(now_ms=NOW_MS)
        is_changed = swap_with_change(hosted_log.log, step, call_number, partial(execute, task))
        if not is_changed:
            break
        assert manager.directories.offline == []
        assert values_in(hosted_log) == expected
        assert hosted_log.log.recovery_point == hosted_log.log.log_end_offset
        assert names_below(hosted_log.log.directory) == names
    assert 4 < call_number < CALLS_MAX - 1


def swap_with_change(log, step, call_number, change):
    """Compact the log; run ``happens`` before the ``at``-th call of a step of the first swap."""
    first, *others = clean(task_of(log)).replacements
    swap = SegmentSwap(log, first)
    if step == "finish":
        swap.stage()
        swap.publish()
    with interrupted_calls(call_number, change) as disk:
        getattr(swap, step)()
    if step == "stage":
        swap.publish()
        swap.finish()
    delete_segment_files(swap.complete())
    for other in others:
        swap = SegmentSwap(log, other)
        swap.stage()
        swap.publish()
        swap.finish()
        delete_segment_files(swap.complete())
    return disk.is_changed
