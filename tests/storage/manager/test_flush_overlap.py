"""A log that changes while a disk thread syncs it: neither is in the other's way.

What the thread does can be cut in two before any of its system calls, and the event loop may do
anything there: so each change is made before each call in turn.  A change that waits for the thread
is done after it.
"""

from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial

import pytest

from odradek.storage import files
from odradek.storage.cleaner.compaction import clean
from odradek.storage.cleaner.swap import Swap, swap
from odradek.storage.deletion import remove
from odradek.storage.manager.disk_work import carry_out
from odradek.storage.settings import TopicSettings
from tests.support import log_managers
from tests.support.compaction import task_of
from tests.support.log_managers import EVENTS, carry_all, managing, values_in
from tests.support.logs import NOW_MS, append, end_transaction

SETTINGS = {"segment_bytes": 400, "index_interval_bytes": 0, "file_delete_delay_ms": 0}
CALLS_MAX = 200
#: After that a change has to wait for the flush.
WAITS_S = 0.5


class Overtaken:
    """``files.system``, on which something else happens before the n-th call."""

    def __init__(self, at, begin):
        self._system = files.system
        self._left = at
        self._begin = begin
        self.change = None

    @property
    def has_happened(self):
        return self.change is not None

    def __getattr__(self, name):
        self._left -= 1
        if self._left == 0:
            files.system = self._system
            self.change = self._begin()
            wait([self.change], timeout=WAITS_S)
            files.system = self
        return getattr(self._system, name)


@contextmanager
def overtaken(at, happens):
    system = files.system
    with ThreadPoolExecutor(1) as others:
        disk = files.system = Overtaken(at, partial(others.submit, happens))
        try:
            yield disk
            if disk.change is not None:
                disk.change.result()
        finally:
            files.system = system


def filled(path, **settings):
    """A log of several segments that are not synced, with everything that a log can have."""
    manager = managing(path, **SETTINGS, **settings)
    hosted = manager.create(EVENTS, now_ms=NOW_MS)
    with hosted as log:
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
            log.flush(now_ms=NOW_MS)  # else nothing would be compacted
        append(log, b"last", key=b"last", leader_epoch=9)
    return manager, hosted


def retain(manager, hosted):
    settings = TopicSettings(**SETTINGS, retention_bytes=0)
    manager.configure("events", settings)
    assert len(log_managers.retain(manager)) > 2
    carry_all(manager.upkeep.removals_due(NOW_MS))


def compact(manager, hosted):
    plan = clean(task_of(hosted.log))
    manager.upkeep.remove_later(hosted, swap(hosted.log, plan), now_ms=NOW_MS)
    carry_all(manager.upkeep.removals_due(NOW_MS))


def truncate(manager, hosted):
    carry_out(manager.truncate(hosted, 3, now_ms=NOW_MS))
    carry_all(manager.upkeep.removals_due(NOW_MS))
    with hosted as log:
        append(log, b"instead", leader_epoch=20)


def begin_anew(manager, hosted):
    carry_out(manager.truncate_fully(hosted, 0, now_ms=NOW_MS))
    carry_all(manager.upkeep.removals_due(NOW_MS))
    with hosted as log:
        append(log, b"anew", leader_epoch=20)


def roll(manager, hosted):
    with hosted as log:
        log.roll(now_ms=NOW_MS)
        append(log, b"more", leader_epoch=20)


CHANGES = {
    retain: {},
    compact: {"cleanup_policy": ("compact",)},
    truncate: {},
    begin_anew: {},
    roll: {},
}


def names_below(path):
    return {each.name for each in path.iterdir()}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_the_midst_of_a_flush_leaves_what_it_leaves_without(tmp_path, change):
    manager, hosted = filled(tmp_path / "alone", **CHANGES[change])
    change(manager, hosted)
    expected = values_in(hosted)
    hosted.log.flush(now_ms=NOW_MS)
    names = names_below(hosted.log.directory)
    for at in range(1, CALLS_MAX):
        root = tmp_path / str(at)
        manager, hosted = filled(root, **CHANGES[change])
        work = hosted.plan_flush(now_ms=NOW_MS)
        with work, overtaken(at, partial(change, manager, hosted)) as disk:
            work.run()
        if not disk.has_happened:
            break
        assert manager.directories.offline == []
        assert values_in(hosted) == expected
        carry_out(hosted.plan_flush(now_ms=NOW_MS))
        assert hosted.log.recovery_point == hosted.log.end_offset
        assert names_below(hosted.log.directory) == names
        manager.close(now_ms=NOW_MS)
        again = managing(root, **SETTINGS, **CHANGES[change])
        assert values_in(again.find(EVENTS)) == expected
        again.abandon()
    assert 10 < at < CALLS_MAX - 1


@pytest.mark.parametrize("step", ["stage", "finish"])
def test_a_flush_in_the_midst_of_a_swap_leaves_what_it_leaves_without(tmp_path, step):
    manager, hosted = filled(tmp_path / "alone", **CHANGES[compact])
    compact(manager, hosted)
    expected = values_in(hosted)
    hosted.log.flush(now_ms=NOW_MS)
    names = names_below(hosted.log.directory)
    for at in range(1, CALLS_MAX):
        manager, hosted = filled(tmp_path / str(at), **CHANGES[compact])
        work = hosted.plan_flush(now_ms=NOW_MS)
        has_happened = swap_around(hosted.log, step, at, partial(carry_out, work))
        if not has_happened:
            break
        assert manager.directories.offline == []
        assert values_in(hosted) == expected
        assert hosted.log.recovery_point == hosted.log.end_offset
        assert names_below(hosted.log.directory) == names
    assert 4 < at < CALLS_MAX - 1


def swap_around(log, step, at, happens):
    """Compact the log; before the ``at``-th call of a step of the first swap, something happens."""
    first, *others = clean(task_of(log)).replacements
    swapping = Swap(log, first)
    if step == "finish":
        swapping.stage()
        swapping.publish()
    with overtaken(at, happens) as disk:
        getattr(swapping, step)()
    if step == "stage":
        swapping.publish()
        swapping.finish()
    remove(swapping.settle())
    for other in others:
        swapping = Swap(log, other)
        swapping.stage()
        swapping.publish()
        swapping.finish()
        remove(swapping.settle())
    return disk.has_happened
