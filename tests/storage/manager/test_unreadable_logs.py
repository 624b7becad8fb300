"""Logs that cannot be opened: their deletion and their future logs."""

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.storage import clean_shutdown, log_loader
from odradek.storage.manager import log_dir_loader
from odradek.storage.manager.disk_task import execute
from odradek.storage.offset_checkpoints import LOG_START_OFFSETS
from odradek.storage.open_segments import TooManyOpenFiles
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
    """Make logs with this text in their directory name impossible to open from now on."""

    def refuse(name):
        def open_log(log_location, load_findings, **options):
            if name in log_location.directory.name:
                raise CorruptMessage("no batch")
            return log_loader.open_log(log_location, load_findings, **options)

        monkeypatch.setattr(log_dir_loader, "open_log", open_log)

    return refuse


@pytest.fixture
def manager(tmp_path, refuse):
    """A manager of two logs, one of which cannot be opened."""
    manager = managing(tmp_path)
    written(manager, EVENTS, b"a", b"b")
    written(manager, ORDERS, b"x")
    with manager.find(EVENTS) as log:
        log.maybe_increment_log_start_offset(1)
    manager.close(now_ms=NOW_MS)
    refuse("events-0")
    return managing(tmp_path, file_delete_delay_ms=0)


def test_unreadable_log_can_be_deleted_and_created_again(manager, tmp_path):
    delete(manager, EVENTS)
    assert manager.find(EVENTS) is None
    assert LOG_START_OFFSETS.read(tmp_path) == {}
    written(manager, EVENTS, b"new")
    assert contents(manager) == {EVENTS: [b"new"], ORDERS: [b"x"]}
    carry_all(manager.maintenance.due_removal_tasks(NOW_MS))
    assert names_in(tmp_path, "-delete") == []


def test_directory_gets_a_marker_after_the_deletion_of_the_log(manager, tmp_path):
    assert manager.delete(EVENTS)
    manager.close(now_ms=NOW_MS)
    assert clean_shutdown.read(tmp_path) is not None


def test_directory_gets_no_marker_while_the_deletion_runs(manager, tmp_path):
    manager.delete(EVENTS)
    manager.deletion_tasks(now_ms=NOW_MS)
    manager.close(now_ms=NOW_MS)
    assert clean_shutdown.read(tmp_path) is None


def test_interrupted_deletion_is_repeated_by_close(manager, tmp_path):
    manager.delete(EVENTS)
    for fail_at in (1, 2):
        (task,) = manager.deletion_tasks(now_ms=NOW_MS)
        with FewDescriptors(fail_at=fail_at), pytest.raises(TooManyOpenFiles):
            execute(task)
    manager.close(now_ms=NOW_MS)
    assert len(names_in(tmp_path, "-delete")) == 1
    assert clean_shutdown.read(tmp_path) is not None


def test_unreadable_future_log_does_not_block_its_log(tmp_path, refuse):
    paths = [tmp_path / "a", tmp_path / "b"]
    manager = managing(*paths)
    written(manager, EVENTS, b"a")
    copied(manager, EVENTS, manager.directories.all[1])
    manager.close(now_ms=NOW_MS)
    refuse("-future")
    restarted = managing(*paths)
    assert contents(restarted) == {EVENTS: [b"a"]}
    assert restarted.find_future(EVENTS) is None
    restarted.close(now_ms=NOW_MS)
    assert clean_shutdown.read(tmp_path / "b") is not None
