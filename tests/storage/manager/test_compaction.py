"""A compaction as a broker drives it, from the choice to the swap, and what may come between."""

import errno
from contextlib import suppress

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.storage.cleaner.compaction import clean
from odradek.storage.cleaner.pace import CleaningStopped, Pace
from odradek.storage.cleaner.states import IDLE, PAUSED, RUNNING
from odradek.storage.manager.directory import LogDirectoryOffline
from odradek.storage.manager.disk_work import carry_out
from odradek.storage.open_segments import OutOfDescriptors
from odradek.storage.paths import Content
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
    """Of a log in which every other record, of a key of its own, stays."""
    manager = managing(tmp_path, observer=observer, **COMPACTED)
    hosted = manager.create(EVENTS, now_ms=NOW_MS)
    with hosted as log:
        for number in range(13):
            key = b"%d" % number if number % 2 else b"k"
            append(log, bytes(150), key=key, timestamp=NOW_MS)
    flush(hosted)
    return manager


def begun(manager):
    compaction = manager.upkeep.next_compaction(NOW_MS, CLEANER)
    assert compaction.partition == EVENTS
    assert manager.cleaner.states[EVENTS] is RUNNING
    return compaction


def finish(compaction):
    with compaction:
        carry_all(compaction.put_in_place(clean(compaction.task), now_ms=NOW_MS))


def offsets_in(manager):
    return list(stored_pairs(manager.find(EVENTS).log))


def test_a_log_is_compacted_and_the_old_segments_are_removed_later(manager, tmp_path):
    finish(begun(manager))
    log = manager.find(EVENTS).log
    assert offsets_in(manager) == [1, 3, 5, 7, 9, 10, 11, 12]
    assert manager.cleaner.states[EVENTS] is IDLE
    assert manager.cleaner.checkpoint(log) == log.segments.active.base_offset
    assert manager.upkeep.next_compaction(NOW_MS, CLEANER) is None
    assert names_in(tmp_path / "events-0", ".log.deleted")
    carry_all(manager.upkeep.removals_due(NOW_MS + 10))
    assert not names_in(tmp_path / "events-0", ".deleted")


def test_the_log_goes_on_between_any_two_parts_of_it(manager):
    compaction = begun(manager)
    with compaction:
        for work in compaction.put_in_place(clean(compaction.task), now_ms=NOW_MS):
            with manager.find(EVENTS) as log:
                append(log, b"more", key=b"more")
            before = offsets_in(manager)
            carry_out(work)
            assert offsets_in(manager)[-5:] == before[-5:]
    manager.close(now_ms=NOW_MS)


def test_a_damaged_log_is_left_alone_from_then_on(manager):
    path = manager.find(EVENTS).log.segments.first.path(Content.BATCHES)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptMessage):
        finish(begun(manager))
    assert manager.cleaner.uncleanable == {EVENTS}
    assert manager.cleaner.states[EVENTS] is IDLE
    assert manager.upkeep.next_compaction(NOW_MS, CLEANER) is None
    assert manager.directories.online


@pytest.mark.parametrize("call", ["pwritev", "fsync", "sync_directory", "rename", "pread"])
@pytest.mark.parametrize("fail_at", [1, 4])
def test_a_disk_that_fails_goes_offline_and_nobody_waits_for_the_compaction(
    manager, observer, tmp_path, call, fail_at
):
    compaction = begun(manager)
    with FaultyDisk(fail_at=fail_at, counting={call}), pytest.raises(LogDirectoryOffline):
        finish(compaction)
    assert observer.failed == [(tmp_path, True)]
    assert manager.cleaner.states[EVENTS] is IDLE


def test_a_directory_that_fails_meanwhile_ends_it(manager):
    compaction = begun(manager)
    with compaction:
        plan = clean(compaction.task)
        manager.directories.all[0].fail(OSError(errno.EIO, "broken"), "something else")
        assert compaction.is_stopping
        (giving_up,) = compaction.put_in_place(plan, now_ms=NOW_MS)
        with pytest.raises(LogDirectoryOffline):
            carry_out(giving_up)
    assert manager.cleaner.states[EVENTS] is IDLE


def test_a_worker_that_was_told_to_stop_leaves_the_log_as_dirty_as_before(manager, tmp_path):
    compaction = begun(manager)
    assert not compaction.is_stopping
    assert not manager.cleaner.pause(EVENTS)
    with pytest.raises(CleaningStopped), compaction:
        clean(compaction.task, Pace(should_stop=lambda: compaction.is_stopping, step_bytes=1))
    assert manager.cleaner.states[EVENTS] is PAUSED
    assert offsets_in(manager) == list(range(13))
    manager.cleaner.resume(EVENTS)
    finish(begun(manager))


def test_who_pauses_the_log_waits_for_one_segment_and_the_rest_is_given_up(manager, tmp_path):
    compaction = begun(manager)
    with compaction:
        plan = clean(compaction.task)
        assert len(plan.replacements) > 1
        works = compaction.put_in_place(plan, now_ms=NOW_MS)
        staging = next(works)
        manager.cleaner.pause(EVENTS)
        carry_out(staging)
        carry_all(works)
    assert manager.cleaner.states[EVENTS] is PAUSED
    assert names_in(tmp_path / "events-0", ".cleaned") == []
    assert names_in(tmp_path / "events-0", ".swap") == []
    assert 0 not in offsets_in(manager)
    assert 12 in offsets_in(manager)
    assert manager.cleaner.checkpoint(manager.find(EVENTS).log) is None


def test_a_segment_that_does_not_get_into_its_place_keeps_everybody_out(manager, tmp_path):
    compaction = begun(manager)
    with compaction:
        works = compaction.put_in_place(clean(compaction.task), now_ms=NOW_MS)
        carry_out(next(works))
    assert manager.cleaner.states[EVENTS] is RUNNING
    manager.abandon()
    again = managing(tmp_path, **COMPACTED)
    assert 0 not in offsets_in(again)
    assert 12 in offsets_in(again)


@pytest.mark.parametrize("done_count", [0, 1, 2, 3])
def test_a_log_whose_policy_becomes_delete_waits_for_what_is_on_its_way(manager, done_count):
    compaction = begun(manager)
    with compaction:
        works = compaction.put_in_place(clean(compaction.task), now_ms=NOW_MS)
        for _ in range(done_count):
            carry_out(next(works))
        deleting = TopicSettings(**SETTINGS, cleanup_policy=("delete",), retention_ms=1)
        manager.configure("events", deleting)
        assert retain(manager, now_ms=NOW_MS + 1000) == []
        assert compaction.is_stopping
        carry_all(works)
    assert manager.cleaner.checkpoint(manager.find(EVENTS).log) is None
    assert retain(manager, now_ms=NOW_MS + 1000)
    assert manager.find(EVENTS).log.start_offset == 13
    assert manager.cleaner.states[EVENTS] is IDLE


def test_a_worker_that_wants_for_descriptors_leaves_the_log_as_dirty_as_before(manager):
    for fail_at in range(1, 60):
        with FewDescriptors(fail_at=fail_at) as system, suppress(OutOfDescriptors):
            compaction = begun(manager)
            with compaction:
                clean(compaction.task)
        if not system.failed_calls:
            break
        assert manager.directories.online
        assert manager.cleaner.states[EVENTS] is IDLE
        assert offsets_in(manager) == list(range(13))
    assert fail_at > 10
    finish(begun(manager))


def test_a_segment_on_its_way_gets_there_when_descriptors_are_left_again(manager, tmp_path):
    compaction = begun(manager)
    plan = clean(compaction.task)
    works = compaction.put_in_place(plan, now_ms=NOW_MS)
    carry_out(next(works))
    finishing = next(works)
    with FewDescriptors(fail_at=1), pytest.raises(OutOfDescriptors), compaction:
        carry_out(finishing)
    assert manager.cleaner.states[EVENTS] is IDLE
    with pytest.raises(OutOfDescriptors):
        offsets_of_hosted(manager)
    carry_all(manager.mendings(now_ms=NOW_MS))
    assert 0 not in offsets_of_hosted(manager)
    assert 12 in offsets_of_hosted(manager)
    assert names_in(tmp_path / "events-0", ".swap") == []
    finish(begun(manager))
    assert offsets_in(manager) == [1, 3, 5, 7, 9, 10, 11, 12]


def test_so_does_one_whose_log_comes_into_doubt_meanwhile(manager, tmp_path):
    compaction = begun(manager)
    works = compaction.put_in_place(clean(compaction.task), now_ms=NOW_MS)
    carry_out(next(works))
    with none_left(), suppress(OutOfDescriptors), manager.find(EVENTS) as log:
        log.roll(now_ms=NOW_MS)
    assert compaction.is_stopping
    assert manager.mendings(now_ms=NOW_MS) == []
    with pytest.raises(OutOfDescriptors), compaction:
        next(works)
    carry_all(manager.mendings(now_ms=NOW_MS))
    assert 0 not in offsets_of_hosted(manager)
    assert 12 in offsets_of_hosted(manager)
    assert names_in(tmp_path / "events-0", ".swap") == []


def offsets_of_hosted(manager):
    with manager.find(EVENTS):
        return offsets_in(manager)
