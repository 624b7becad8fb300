"""Recovery by worker processes, some of which do not live to see its end."""

import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context

import pytest

from odradek.protocol.types import TopicPartition
from odradek.storage.paths import Content
from tests.support.log_managers import EVENTS, ORDERS, Notebook, contents, managing, written


def in_processes(tasks):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(task) for task in tasks]):
            yield done.result()


def test_logs_are_recovered_by_worker_processes(tmp_path):
    manager = managing(tmp_path / "a", tmp_path / "b")
    partitions = [TopicPartition("events", number) for number in range(6)]
    for partition in partitions:
        written(manager, partition, b"%d" % partition.partition, b"more")
    torn = manager.find(partitions[3]).log.segments.active.path
    manager.abandon()
    with torn(Content.BATCHES).open("ab") as file:
        file.write(b"half a batch")
    observer = Notebook()
    again = managing(tmp_path / "a", tmp_path / "b", observer=observer, run_all=in_processes)
    assert contents(again) == {
        partition: [b"%d" % partition.partition, b"more"] for partition in partitions
    }
    (note,) = observer.notes
    assert "12 bytes" in note


def dying_at(task):
    """What a worker of a pool does whose recovery of one log kills it, as a bus error would."""
    _, place, _ = task.args
    return os._exit(1) if (place.directory / "deadly").exists() else task()


def in_mortal_processes(tasks):
    return in_processes([partial(dying_at, task) for task in tasks])


def leaving_out_the_deadly(tasks):
    return (task() for task in tasks if not (task.args[1].directory / "deadly").exists())


@pytest.mark.parametrize("run_all", [in_mortal_processes, leaving_out_the_deadly])
def test_a_directory_whose_recovery_kills_a_worker_goes_offline_alone(tmp_path, run_all):
    paths = [tmp_path / name for name in "abc"]
    manager = managing(*paths)
    partitions = [TopicPartition("events", number) for number in range(6)]
    for partition in partitions:
        written(manager, partition, b"%d" % partition.partition)
    deadly = manager.find(partitions[1])
    lost = {each.partition for each in manager.logs.in_directory(deadly.directory)}
    (deadly.log.directory / "deadly").touch()
    manager.abandon()
    observer = Notebook()
    again = managing(*paths, observer=observer, run_all=run_all)
    assert observer.failed == [(deadly.directory.path, False)]
    assert contents(again) == {
        partition: [b"%d" % partition.partition]
        for partition in partitions
        if partition not in lost
    }
    (offline,) = again.directories.offline
    assert "a worker died" in str(offline.failure)
    assert str(partitions[1]) in str(offline.failure)
    finished = {path: done == total for path, done, total in observer.progress}
    assert finished == {path: path != deadly.directory.path for path in paths}


def test_a_worker_that_dies_once_costs_nothing_but_time(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    manager = managing(a, b)
    written(manager, EVENTS, b"a")
    written(manager, ORDERS, b"x")
    manager.abandon()
    observer = Notebook()
    calls = []

    def breaking_once(tasks):
        calls.append(len(tasks))
        if len(calls) == 1:
            yield tasks[0]()
            raise BrokenProcessPool
        yield from (task() for task in tasks)

    again = managing(a, b, observer=observer, run_all=breaking_once)
    assert calls == [2, 1]
    assert observer.failed == []
    assert contents(again) == {EVENTS: [b"a"], ORDERS: [b"x"]}
