"""Closing all logs, so that the next start finds nothing to recover."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from odradek.protocol.types import TopicPartition
from odradek.storage import clean_shutdown, files
from odradek.storage.offset_checkpoints import RECOVERY_POINTS
from tests.support.faulty_disk import FaultyDisk
from tests.support.few_descriptors import FewDescriptors
from tests.support.log_managers import (
    EVENTS,
    ORDERS,
    Notebook,
    contents,
    managing,
    values_in,
    written,
)
from tests.support.logs import NOW_MS


class Journal(files.System):
    """Notes what becomes durable, in order."""

    def __init__(self):
        self.lines = []

    def rename(self, source, target):
        files.System.rename(source, target)
        self.lines.append(target.name)

    def fsync(self, descriptor):
        self.lines.append("sync")


def test_the_marker_comes_after_the_checkpoints_and_they_after_the_logs(tmp_path, monkeypatch):
    manager = managing(tmp_path)
    written(manager, EVENTS, b"a")
    journal = Journal()
    with monkeypatch.context() as patched:
        patched.setattr(files, "system", journal)
        manager.close(now_ms=NOW_MS)
    renamed = [line for line in journal.lines if line != "sync"]
    assert renamed == [
        "leader-epoch-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        clean_shutdown.FILE_NAME,
    ]
    assert journal.lines.count("sync") > len(renamed)


def test_logs_are_closed_by_threads_that_the_caller_supplies(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    partitions = [TopicPartition("events", number) for number in range(20)]
    for partition in partitions:
        written(manager, partition, b"a")

    def in_threads(tasks):
        with ThreadPoolExecutor(4) as pool:
            yield from pool.map(lambda task: task(), tasks)

    manager.close(now_ms=NOW_MS, run_all=in_threads)
    observer = Notebook()
    again = managing(tmp_path / "a", tmp_path / "b", observer=observer)
    assert contents(again) == {partition: [b"a"] for partition in partitions}
    assert observer == Notebook()


def test_a_directory_with_a_log_that_cannot_be_closed_gets_no_marker(tmp_path):
    observer = Notebook()
    manager = managing(tmp_path / "a", tmp_path / "b", observer=observer)
    written(manager, EVENTS, b"a")
    written(manager, ORDERS, b"b")
    with FaultyDisk(fail_at=1, counting={"fsync"}):
        manager.close(now_ms=NOW_MS)
    assert observer.failed == [(tmp_path / "a", False)]
    assert clean_shutdown.read(tmp_path / "a") is None
    assert clean_shutdown.read(tmp_path / "b") is not None
    assert values_in(managing(tmp_path / "a").find(EVENTS)) == [b"a"]


def test_closing_what_was_not_used_touches_only_the_marker(tmp_path):
    manager = managing(tmp_path)
    for number in range(5):
        written(manager, TopicPartition("events", number), b"a")
    manager.close(now_ms=NOW_MS)
    again = managing(tmp_path)
    with FaultyDisk(counting={"fsync"}) as disk:
        again.close(now_ms=NOW_MS)
    assert disk.changes == 1
    assert len(RECOVERY_POINTS.read(tmp_path)) == 5


def test_a_log_that_was_deleted_does_not_come_back_by_closing(tmp_path):
    manager = managing(tmp_path)
    written(manager, EVENTS, b"a")
    manager.delete(EVENTS)
    manager.close(now_ms=NOW_MS)
    assert clean_shutdown.read(tmp_path) is not None
    assert contents(managing(tmp_path)) == {}


def test_a_deletion_that_was_broken_off_is_carried_out_again(tmp_path):
    manager = managing(tmp_path)
    written(manager, EVENTS, b"a")
    manager.delete(EVENTS)
    (work,) = manager.deletions(now_ms=NOW_MS)
    with pytest.raises(KeyboardInterrupt), work:
        raise KeyboardInterrupt
    manager.close(now_ms=NOW_MS)
    assert clean_shutdown.read(tmp_path) is not None
    assert contents(managing(tmp_path)) == {}


def test_a_directory_with_a_log_whose_deletion_is_under_way_gets_no_marker(tmp_path):
    manager = managing(tmp_path)
    written(manager, EVENTS, b"a")
    manager.delete(EVENTS)
    manager.deletions(now_ms=NOW_MS)
    manager.close(now_ms=NOW_MS)
    assert clean_shutdown.read(tmp_path) is None
    assert contents(managing(tmp_path)) == {EVENTS: [b"a"]}


def test_whichever_call_finds_no_descriptor_all_is_there_at_the_next_start(tmp_path):
    unmarked = []
    for fail_at in range(1, 100):
        root = tmp_path / str(fail_at)
        manager = managing(root / "a", root / "b")
        written(manager, EVENTS, b"a")
        written(manager, ORDERS, b"b")
        with FewDescriptors(fail_at=fail_at) as system:
            manager.close(now_ms=NOW_MS)
        if not system.failed_calls:
            break
        assert len(manager.directories.online) == 2
        unmarked += [name for name in ("a", "b") if clean_shutdown.read(root / name) is None]
        again = managing(root / "a", root / "b")
        assert contents(again) == {EVENTS: [b"a"], ORDERS: [b"b"]}
    # All but those that come after the markers.
    assert fail_at - 4 <= len(unmarked) < fail_at


def test_a_closed_manager_gives_its_directories_back(tmp_path):
    managing(tmp_path).close(now_ms=NOW_MS)
    managing(tmp_path).abandon()
    managing(tmp_path).close(now_ms=NOW_MS)
