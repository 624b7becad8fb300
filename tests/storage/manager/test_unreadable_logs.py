"""Logs that cannot be opened, and are given up."""

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.storage import clean_shutdown, log_loader
from odradek.storage.manager import loading
from odradek.storage.manager.disk_work import carry_out
from odradek.storage.offset_checkpoints import LOG_START_OFFSETS
from odradek.storage.open_segments import OutOfDescriptors
from tests.support.few_descriptors import FewDescriptors
from tests.support.log_managers import (
    EVENTS,
    ORDERS,
    carry_all,
    contents,
    copied,
    delete,
    managing,
    names_in,
    written,
)
from tests.support.logs import NOW_MS


@pytest.fixture
def refuse(monkeypatch):
    """From now on, nobody can open what has this in its name."""

    def refuse(name):
        def open_log(place, findings, **how):
            if name in place.directory.name:
                raise CorruptMessage("no batch")
            return log_loader.open_log(place, findings, **how)

        monkeypatch.setattr(loading, "open_log", open_log)

    return refuse


@pytest.fixture
def manager(tmp_path, refuse):
    """One log of two cannot be opened."""
    manager = managing(tmp_path)
    written(manager, EVENTS, b"a", b"b")
    written(manager, ORDERS, b"x")
    with manager.find(EVENTS) as log:
        log.advance_start(1)
    manager.close(now_ms=NOW_MS)
    refuse("events-0")
    return managing(tmp_path, file_delete_delay_ms=0)


def test_one_can_be_deleted_and_made_anew(manager, tmp_path):
    delete(manager, EVENTS)
    assert manager.find(EVENTS) is None
    assert LOG_START_OFFSETS.read(tmp_path) == {}
    written(manager, EVENTS, b"new")
    assert contents(manager) == {EVENTS: [b"new"], ORDERS: [b"x"]}
    carry_all(manager.upkeep.removals_due(NOW_MS))
    assert names_in(tmp_path, "-delete") == []


def test_its_directory_is_clean_again_without_it(manager, tmp_path):
    assert manager.delete(EVENTS)
    manager.close(now_ms=NOW_MS)
    assert clean_shutdown.read(tmp_path) is not None


def test_its_directory_is_not_clean_while_its_deletion_is_under_way(manager, tmp_path):
    manager.delete(EVENTS)
    manager.deletions(now_ms=NOW_MS)
    manager.close(now_ms=NOW_MS)
    assert clean_shutdown.read(tmp_path) is None


def test_its_deletion_is_carried_out_again_if_it_was_broken_off(manager, tmp_path):
    manager.delete(EVENTS)
    for fail_at in (1, 2):
        (work,) = manager.deletions(now_ms=NOW_MS)
        with FewDescriptors(fail_at=fail_at), pytest.raises(OutOfDescriptors):
            carry_out(work)
    manager.close(now_ms=NOW_MS)
    assert len(names_in(tmp_path, "-delete")) == 1
    assert clean_shutdown.read(tmp_path) is not None


def test_a_copy_that_cannot_be_opened_does_not_keep_its_log_from_use(tmp_path, refuse):
    places = [tmp_path / "a", tmp_path / "b"]
    manager = managing(*places)
    written(manager, EVENTS, b"a")
    copied(manager, EVENTS, manager.directories.all[1])
    manager.close(now_ms=NOW_MS)
    refuse("-future")
    again = managing(*places)
    assert contents(again) == {EVENTS: [b"a"]}
    assert again.find_future(EVENTS) is None
    again.close(now_ms=NOW_MS)
    assert clean_shutdown.read(tmp_path / "b") is not None
