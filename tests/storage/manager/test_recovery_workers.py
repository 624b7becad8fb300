"""Log recovery by worker processes, some of which die."""

import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context

import pytest

from odradek.protocol.types import TopicPartition
from odradek.storage.paths import LogFileType
from tests.support.log_managers import EVENTS, ORDERS, Notebook, contents, managing, written


def in_processes(tasks):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(task) for task in tasks]):
            yield future.result()


def test_logs_are_recovered_by_worker_processes(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    partitions = [TopicPartition("events", number) for number in range(6)]
    for partition in partitions:
        written(manager, partition, b"%d" % partition.partition, b"more")
    torn = manager.find(partitions[3]).log.segments.active.path
    manager.close_handlers()
    with torn(LogFileType.LOG).open("ab") as file:
        file.write(b"half a batch")
    observer = Notebook()
    restarted = managing(tmp_path / "a", tmp_path / "b", observer=observer, run_all=in_processes)
    assert contents(restarted) == {
        partition: [b"%d" % partition.partition, b"more"] for partition in partitions
    }
    (note,) = observer.notes
    assert "12 bytes" in note


def run_or_die(task):
    """Run the task, or exit the worker as a bus error would for a log that has a marker file."""
    _, log_location, _ = task.args
    return os._exit(1) if (log_location.directory / "deadly").exists() else task()


def in_dying_processes(tasks):
    return in_processes([partial(run_or_die, task) for task in tasks])


def skipping_marked_logs(tasks):
    return (task() for task in tasks if not (task.args[1].directory / "deadly").exists())


@pytest.mark.parametrize("run_all", [in_dying_processes, skipping_marked_logs])
def test_directory_whose_recovery_kills_a_worker_goes_offline_alone(tmp_path, run_all):
    paths = [tmp_path / name for name in "abc"]
    manager = managing(*paths)
    partitions = [TopicPartition("events", number) for number in range(6)]
    for partition in partitions:
        written(manager, partition, b"%d" % partition.partition)
    marked_log = manager.find(partitions[1])
    lost_partitions = {log.partition for log in manager.logs.in_directory(marked_log.directory)}
    (marked_log.log.directory / "deadly").touch()
    manager.close_handlers()
    observer = Notebook()
    restarted = managing(*paths, observer=observer, run_all=run_all)
    assert observer.failed == [(marked_log.directory.path, False)]
    assert contents(restarted) == {
        partition: [b"%d" % partition.partition]
        for partition in partitions
        if partition not in lost_partitions
    }
    (offline,) = restarted.directories.offline
    assert "a recovery worker died" in str(offline.error)
    assert str(partitions[1]) in str(offline.error)
    finished = {path: future == total for path, future, total in observer.progress}
    assert finished == {path: path != marked_log.directory.path for path in paths}


def test_recovery_is_retried_after_a_worker_dies_once(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    manager = managing(a, b)
    written(manager, EVENTS, b"a")
    written(manager, ORDERS, b"x")
    manager.close_handlers()
    observer = Notebook()
    calls = []

    def breaking_once(tasks):
        calls.append(len(tasks))
        if len(calls) == 1:
            yield tasks[0]()
            raise BrokenProcessPool
        yield from (task() for task in tasks)

    restarted = managing(a, b, observer=observer, run_all=breaking_once)
    assert calls == [2, 1]
    assert observer.failed == []
    assert contents(restarted) == {EVENTS: [b"a"], ORDERS: [b"x"]}
