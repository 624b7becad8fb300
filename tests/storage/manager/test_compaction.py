"""A compaction as the broker runs it, from the choice of the log to the swap of its segments."""

import errno
from contextlib import suppress

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.storage.cleaner.cleaner import clean
from odradek.storage.cleaner.log_cleaning_state import IDLE, PAUSED, RUNNING
from odradek.storage.cleaner.throttler import CleanerThrottler, LogCleaningAborted
from odradek.storage.manager.directory import LogDirectoryOffline
from odradek.storage.manager.disk_task import execute
from odradek.storage.open_segments import TooManyOpenFiles
from odradek.storage.paths import LogFileType
from odradek.storage.settings import TopicSettings
from tests.support.compaction import CLEANER, stored_pairs
from tests.support.faulty_disk import FaultyDisk
from tests.support.few_descriptors import FewDescriptors, none_left
from tests.support.log_managers import (
    EVENTS,
    Notebook,
    carry_all,
    flush,
    managing,
    names_in,
    retain,
)
from tests.support.logs import NOW_MS, append

SETTINGS = {"segment_bytes": 500, "min_cleanable_dirty_ratio": 0.0, "file_delete_delay_ms": 10}
COMPACTED = {**SETTINGS, "cleanup_policy": ("compact",)}


@pytest.fixture
def observer():
    return Notebook()


@pytest.fixture
def manager(tmp_path, observer):
    """The manager of a log in which every other record has a unique key and is retained."""
    manager = managing(tmp_path, observer=observer, **COMPACTED)
    hosted_log = manager.get_or_create_log(EVENTS, now_ms=NOW_MS)
    with hosted_log as log:
        for number in range(13):
            key = b"%d" % number if number % 2 else b"k"
            append(log, bytes(150), key=key, timestamp=NOW_MS)
    flush(hosted_log)
    return manager


def begin_compaction(manager):
    compaction = manager.maintenance.next_compaction(NOW_MS, CLEANER)
    assert compaction.partition == EVENTS
    assert manager.cleaner_manager.states[EVENTS] is RUNNING
    return compaction


def finish_compaction(compaction):
    with compaction:
        carry_all(compaction.replace_segments(clean(compaction.task), now_ms=NOW_MS))


def offsets_in(manager):
    return list(stored_pairs(manager.find(EVENTS).log))


def test_log_is_compacted_and_the_old_segments_are_deleted_later(manager, tmp_path):
    finish_compaction(begin_compaction(manager))
    log = manager.find(EVENTS).log
    assert offsets_in(manager) == [1, 3, 5, 7, 9, 10, 11, 12]
    assert manager.cleaner_manager.states[EVENTS] is IDLE
    assert manager.cleaner_manager.last_clean_offset(log) == log.segments.active.base_offset
    assert manager.maintenance.next_compaction(NOW_MS, CLEANER) is None
    assert names_in(tmp_path / "events-0", ".log.deleted")
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS + 10))
    assert not names_in(tmp_path / "events-0", ".deleted")


def test_log_accepts_appends_between_any_two_steps(manager):
    compaction = begin_compaction(manager)
    with compaction:
        for task in compaction.replace_segments(clean(compaction.task), now_ms=NOW_MS):
            with manager.find(EVENTS) as log:
                append(log, b"more", key=b"more")
            before = offsets_in(manager)
            execute(task)
            assert offsets_in(manager)[-5:] == before[-5:]
    manager.close(now_ms=NOW_MS)


def test_damaged_log_becomes_uncleanable(manager):
    path = manager.find(EVENTS).log.segments.first.path(LogFileType.LOG)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptMessage):
        finish_compaction(begin_compaction(manager))
    assert manager.cleaner_manager.uncleanable_partitions == {EVENTS}
    assert manager.cleaner_manager.states[EVENTS] is IDLE
    assert manager.maintenance.next_compaction(NOW_MS, CLEANER) is None
    assert manager.directories.online


@pytest.mark.parametrize("call", ["pwritev", "fsync", "sync_directory", "rename", "pread"])
@pytest.mark.parametrize("fail_at", [1, 4])
def test_disk_failure_takes_the_directory_offline_and_ends_the_compaction(
    manager, observer, tmp_path, call, fail_at
):
    compaction = begin_compaction(manager)
    with FaultyDisk(fail_at=fail_at, counting={call}), pytest.raises(LogDirectoryOffline):
        finish_compaction(compaction)
    assert observer.failed == [(tmp_path, True)]
    assert manager.cleaner_manager.states[EVENTS] is IDLE


def test_directory_failure_ends_the_compaction(manager):
    compaction = begin_compaction(manager)
    with compaction:
        plan = clean(compaction.task)
        manager.directories.all[0].mark_offline(OSError(errno.EIO, "broken"), "something else")
        assert compaction.is_stopping
        (cleanup,) = compaction.replace_segments(plan, now_ms=NOW_MS)
        with pytest.raises(LogDirectoryOffline):
            execute(cleanup)
    assert manager.cleaner_manager.states[EVENTS] is IDLE


def test_aborted_cleaning_does_not_change_the_log(manager, tmp_path):
    compaction = begin_compaction(manager)
    assert not compaction.is_stopping
    assert not manager.cleaner_manager.pause(EVENTS)
    with pytest.raises(LogCleaningAborted), compaction:
        clean(
            compaction.task,
            CleanerThrottler(should_abort=lambda: compaction.is_stopping, step_bytes=1),
        )
    assert manager.cleaner_manager.states[EVENTS] is PAUSED
    assert offsets_in(manager) == list(range(13))
    manager.cleaner_manager.resume(EVENTS)
    finish_compaction(begin_compaction(manager))


def test_pause_completes_the_current_segment_and_drops_the_rest(manager, tmp_path):
    compaction = begin_compaction(manager)
    with compaction:
        plan = clean(compaction.task)
        assert len(plan.replacements) > 1
        tasks = compaction.replace_segments(plan, now_ms=NOW_MS)
        staging = next(tasks)
        manager.cleaner_manager.pause(EVENTS)
        execute(staging)
        carry_all(tasks)
    assert manager.cleaner_manager.states[EVENTS] is PAUSED
    assert names_in(tmp_path / "events-0", ".cleaned") == []
    assert names_in(tmp_path / "events-0", ".swap") == []
    assert 0 not in offsets_in(manager)
    assert 12 in offsets_in(manager)
    assert manager.cleaner_manager.last_clean_offset(manager.find(EVENTS).log) is None


def test_interrupted_swap_keeps_the_compaction_running_until_a_restart(manager, tmp_path):
    compaction = begin_compaction(manager)
    with compaction:
        tasks = compaction.replace_segments(clean(compaction.task), now_ms=NOW_MS)
        execute(next(tasks))
    assert manager.cleaner_manager.states[EVENTS] is RUNNING
    manager.close_handlers()
    restarted = managing(tmp_path, **COMPACTED)
    assert 0 not in offsets_in(restarted)
    assert 12 in offsets_in(restarted)


@pytest.mark.parametrize("done_count", [0, 1, 2, 3])
def test_retention_waits_for_the_swap_after_a_change_to_the_delete_policy(manager, done_count):
    compaction = begin_compaction(manager)
    with compaction:
        tasks = compaction.replace_segments(clean(compaction.task), now_ms=NOW_MS)
        for _ in range(done_count):
            execute(next(tasks))
        deleting = TopicSettings(**SETTINGS, cleanup_policy=("delete",), retention_ms=1)
        manager.configure("events", deleting)
        assert retain(manager, now_ms=NOW_MS + 1000) == []
        assert compaction.is_stopping
        carry_all(tasks)
    assert manager.cleaner_manager.last_clean_offset(manager.find(EVENTS).log) is None
    assert retain(manager, now_ms=NOW_MS + 1000)
    assert manager.find(EVENTS).log.log_start_offset == 13
    assert manager.cleaner_manager.states[EVENTS] is IDLE


def test_cleaning_without_descriptors_does_not_change_the_log(manager):
    for fail_at in range(1, 60):
        with FewDescriptors(fail_at=fail_at) as system, suppress(TooManyOpenFiles):
            compaction = begin_compaction(manager)
            with compaction:
                clean(compaction.task)
        if not system.failed_calls:
            break
        assert manager.directories.online
        assert manager.cleaner_manager.states[EVENTS] is IDLE
        assert offsets_in(manager) == list(range(13))
    assert fail_at > 10
    finish_compaction(begin_compaction(manager))


def test_swap_interrupted_by_a_lack_of_descriptors_is_completed_by_repair(manager, tmp_path):
    compaction = begin_compaction(manager)
    plan = clean(compaction.task)
    tasks = compaction.replace_segments(plan, now_ms=NOW_MS)
    execute(next(tasks))
    finishing = next(tasks)
    with FewDescriptors(fail_at=1), pytest.raises(TooManyOpenFiles), compaction:
        execute(finishing)
    assert manager.cleaner_manager.states[EVENTS] is IDLE
    with pytest.raises(TooManyOpenFiles):
        offsets_if_usable(manager)
    carry_all(manager.repair_tasks(now_ms=NOW_MS))
    assert 0 not in offsets_if_usable(manager)
    assert 12 in offsets_if_usable(manager)
    assert names_in(tmp_path / "events-0", ".swap") == []
    finish_compaction(begin_compaction(manager))
    assert offsets_in(manager) == [1, 3, 5, 7, 9, 10, 11, 12]


def test_swap_is_completed_by_repair_of_a_log_that_needs_recovery(manager, tmp_path):
    compaction = begin_compaction(manager)
    tasks = compaction.replace_segments(clean(compaction.task), now_ms=NOW_MS)
    execute(next(tasks))
    with none_left(), suppress(TooManyOpenFiles), manager.find(EVENTS) as log:
        log.roll(now_ms=NOW_MS)
    assert compaction.is_stopping
    assert manager.repair_tasks(now_ms=NOW_MS) == []
    with pytest.raises(TooManyOpenFiles), compaction:
        next(tasks)
    carry_all(manager.repair_tasks(now_ms=NOW_MS))
    assert 0 not in offsets_if_usable(manager)
    assert 12 in offsets_if_usable(manager)
    assert names_in(tmp_path / "events-0", ".swap") == []


def offsets_if_usable(manager):
    with manager.find(EVENTS):
        return offsets_in(manager)
