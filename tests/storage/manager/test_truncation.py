"""Truncation as work: what sleeps, when files are renamed, and what may come in between."""

import pytest

from odradek.storage import clean_shutdown
from odradek.storage.manager.disk_work import carry_out
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


def test_nothing_is_synced_before_the_work_begins(manager, hosted):
    assert len(hosted.log.segments) == len(VALUES)
    with FaultyDisk(counting={"fsync", "sync_directory"}) as disk:
        work = manager.truncate(hosted, 2, now_ms=NOW_MS)
        assert disk.changes == 0
        carry_out(work)
        assert disk.changes > 3
    assert values_in(hosted) == VALUES[:2]


def test_segments_are_removed_only_after_they_have_been_set_aside(manager, hosted, tmp_path):
    work = manager.truncate(hosted, 2, now_ms=NOW_MS)
    assert manager.upkeep.removals_due(NOW_MS) == []
    assert len(names_in(tmp_path / "events-0", ".log")) == len(VALUES)
    carry_out(work)
    assert len(names_in(tmp_path / "events-0", ".log.deleted")) == 3
    carry_all(manager.upkeep.removals_due(NOW_MS))
    assert not names_in(tmp_path / "events-0", ".deleted")


def test_segments_behind_damage_are_removed_too(manager, hosted, tmp_path):
    flip_in_batch(hosted.log.segments.at(2), 0, 16)
    carry_out(manager.truncate(hosted, 2, now_ms=NOW_MS))
    carry_all(manager.upkeep.removals_due(NOW_MS))
    assert values_in(hosted) == VALUES[:2]
    assert not names_in(tmp_path / "events-0", ".deleted")


def test_a_log_that_is_deleted_meanwhile_is_left_alone(manager, hosted, tmp_path):
    work = manager.truncate(hosted, 2, now_ms=NOW_MS)
    delete(manager, EVENTS)
    carry_out(work)
    carry_all(manager.upkeep.removals_due(NOW_MS))
    assert manager.directories.offline == []
    assert not (tmp_path / "events-0").exists()


def test_a_directory_where_a_truncation_was_broken_off_gets_no_marker(manager, hosted, tmp_path):
    work = manager.truncate(hosted, 2, now_ms=NOW_MS)
    with pytest.raises(KeyboardInterrupt), work:
        raise KeyboardInterrupt
    manager.close(now_ms=NOW_MS)
    assert clean_shutdown.read(tmp_path) is None
    (left,) = contents(managing(tmp_path, **SETTINGS)).values()
    assert left == VALUES[: len(left)]


def test_a_copy_does_not_take_its_logs_place_while_it_is_cut(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b", **SETTINGS)
    hosted = written(manager, EVENTS, *VALUES)
    future = copied(manager, EVENTS, manager.directories.all[1])
    carry_all(manager.prepare_move(EVENTS, now_ms=NOW_MS))
    carry_out(manager.truncate(hosted, 2, now_ms=NOW_MS))
    work = manager.truncate(future, 2, now_ms=NOW_MS)
    assert manager.finish_move(EVENTS) is None
    carry_out(work)
    assert manager.finish_move(EVENTS) is not None
