"""Truncation as a disk task: flushes, renames, and concurrent operations."""

import pytest

from odradek.storage import clean_shutdown
from odradek.storage.manager.disk_task import execute
from tests.support.damage import flip_in_batch
from tests.support.faulty_disk import FaultyDisk
from tests.support.log_managers import (
    EVENTS,
    carry_all,
    contents,
    copied,
    delete,
    managing,
    names_in,
    values_in,
    written,
)
from tests.support.logs import NOW_MS

VALUES = [b"%d" % number + bytes(100) for number in range(6)]
SETTINGS = {"segment_bytes": 200, "file_delete_delay_ms": 0}


@pytest.fixture
def manager(tmp_path):
    return managing(tmp_path, **SETTINGS)


@pytest.fixture
def hosted(manager):
    return written(manager, EVENTS, *VALUES)


def test_nothing_is_flushed_before_the_task_begins(manager, hosted):
    assert len(hosted.log.segments) == len(VALUES)
    with FaultyDisk(counting={"fsync", "sync_directory"}) as disk:
        task = manager.truncate(hosted, 2, now_ms=NOW_MS)
        assert disk.changes == 0
        execute(task)
        assert disk.changes > 3
    assert values_in(hosted) == VALUES[:2]


def test_segments_are_removed_only_after_they_are_renamed(manager, hosted, tmp_path):
    task = manager.truncate(hosted, 2, now_ms=NOW_MS)
    assert manager.maintenance.due_removal_tasks(NOW_MS) == []
    assert len(names_in(tmp_path / "events-0", ".log")) == len(VALUES)
    execute(task)
    assert len(names_in(tmp_path / "events-0", ".log.deleted")) == 3
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS))
    assert not names_in(tmp_path / "events-0", ".deleted")


def test_segments_after_a_damaged_batch_are_removed_too(manager, hosted, tmp_path):
    flip_in_batch(hosted.log.segments.get(2), 0, 16)
    execute(manager.truncate(hosted, 2, now_ms=NOW_MS))
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS))
    assert values_in(hosted) == VALUES[:2]
    assert not names_in(tmp_path / "events-0", ".deleted")


def test_log_deleted_before_its_truncation_is_not_changed(manager, hosted, tmp_path):
    task = manager.truncate(hosted, 2, now_ms=NOW_MS)
    delete(manager, EVENTS)
    execute(task)
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS))
    assert manager.directories.offline == []
    assert not (tmp_path / "events-0").exists()


def test_directory_with_an_interrupted_truncation_gets_no_marker(manager, hosted, tmp_path):
    task = manager.truncate(hosted, 2, now_ms=NOW_MS)
    with pytest.raises(KeyboardInterrupt), task:
        raise KeyboardInterrupt
    manager.close(now_ms=NOW_MS)
    assert clean_shutdown.read(tmp_path) is None
    (values,) = contents(managing(tmp_path, **SETTINGS)).values()
    assert values == VALUES[: len(values)]


def test_future_log_does_not_replace_its_log_during_a_truncation(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b", **SETTINGS)
    hosted = written(manager, EVENTS, *VALUES)
    future = copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    execute(manager.truncate(hosted, 2, now_ms=NOW_MS))
    task = manager.truncate(future, 2, now_ms=NOW_MS)
    assert manager.finish_move(EVENTS) is None
    execute(task)
    assert manager.finish_move(EVENTS) is not None
