"""A clean shutdown of all logs, after which the next start recovers nothing."""

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


class RecordedCalls(files.SystemCalls):
    """Records the renamed and flushed files in order."""

    def __init__(self):
        self.calls = []

    def rename(self, source, target):
        files.SystemCalls.rename(source, target)
        self.calls.append(target.name)

    def fsync(self, descriptor):
        self.calls.append("sync")


def test_close_writes_logs_then_checkpoints_then_the_marker(tmp_path, monkeypatch):
    manager = managing(tmp_path)
    written(manager, EVENTS, b"a")
    recorded_calls = RecordedCalls()
    with monkeypatch.context() as patched:
        patched.setattr(files, "system", recorded_calls)
        manager.close(now_ms=NOW_MS)
    renamed = [call for call in recorded_calls.calls if call != "sync"]
    assert renamed == [
        "leader-epoch-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        clean_shutdown.FILE_NAME,
    ]
    assert recorded_calls.calls.count("sync") > len(renamed)


def test_logs_are_closed_on_the_threads_of_the_caller(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    partitions = [TopicPartition("events", number) for number in range(20)]
    for partition in partitions:
        written(manager, partition, b"a")

    def in_threads(tasks):
        with ThreadPoolExecutor(4) as pool:
            yield from pool.map(lambda task: task(), tasks)

    manager.close(now_ms=NOW_MS, run_all=in_threads)
    observer = Notebook()
    restarted = managing(tmp_path / "a", tmp_path / "b", observer=observer)
    assert contents(restarted) == {partition: [b"a"] for partition in partitions}
    assert observer == Notebook()


def test_directory_of_a_log_that_cannot_be_closed_gets_no_marker(tmp_path):
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


def test_closing_unused_logs_writes_only_the_marker(tmp_path):
    manager = managing(tmp_path)
    for number in range(5):
        written(manager, TopicPartition("events", number), b"a")
    manager.close(now_ms=NOW_MS)
    restarted = managing(tmp_path)
    with FaultyDisk(counting={"fsync"}) as disk:
        restarted.close(now_ms=NOW_MS)
    assert disk.changes == 1
    assert len(RECOVERY_POINTS.read(tmp_path)) == 5


def test_deleted_log_does_not_return_after_close(tmp_path):
    manager = managing(tmp_path)
    written(manager, EVENTS, b"a")
    manager.delete(EVENTS)
    manager.close(now_ms=NOW_MS)
    assert clean_shutdown.read(tmp_path) is not None
    assert contents(managing(tmp_path)) == {}


def test_interrupted_deletion_is_repeated_by_close(tmp_path):
    manager = managing(tmp_path)
    written(manager, EVENTS, b"a")
    manager.delete(EVENTS)
    (task,) = manager.deletion_tasks(now_ms=NOW_MS)
    with pytest.raises(KeyboardInterrupt), task:
        raise KeyboardInterrupt
    manager.close(now_ms=NOW_MS)
    assert clean_shutdown.read(tmp_path) is not None
    assert contents(managing(tmp_path)) == {}


def test_directory_with_a_running_deletion_gets_no_marker(tmp_path):
    manager = managing(tmp_path)
    written(manager, EVENTS, b"a")
    manager.delete(EVENTS)
    manager.deletion_tasks(now_ms=NOW_MS)
    manager.close(now_ms=NOW_MS)
    assert clean_shutdown.read(tmp_path) is None
    assert contents(managing(tmp_path)) == {EVENTS: [b"a"]}


def test_close_without_descriptors_at_any_call_loses_no_log(tmp_path):
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
        restarted = managing(root / "a", root / "b")
        assert contents(restarted) == {EVENTS: [b"a"], ORDERS: [b"b"]}
    # All calls except those after the markers were written.
    assert fail_at - 4 <= len(unmarked) < fail_at


def test_close_releases_the_directories(tmp_path):
    managing(tmp_path).close(now_ms=NOW_MS)
    managing(tmp_path).close_handlers()
    managing(tmp_path).close(now_ms=NOW_MS)
