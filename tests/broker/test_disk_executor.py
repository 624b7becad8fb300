"""The pool of threads for what sleeps in the kernel."""

import asyncio
import threading

import pytest

from odradek.broker.disk import Disk
from odradek.protocol.errors import KafkaStorageError
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.manager.disk_work import DiskWork
from tests.support.log_managers import Notebook


@pytest.fixture
def disk():
    disk = Disk(2)
    yield disk
    disk.close()


@pytest.fixture
def directories(tmp_path):
    directories = LogDirectories([tmp_path / "one", tmp_path / "two"], Notebook())
    directories.open()
    yield directories.all
    directories.release()


@pytest.fixture
def directory(directories):
    return directories[0]


async def test_a_call_runs_on_another_thread(disk):
    assert await disk.run(threading.get_ident) != threading.get_ident()


async def test_work_is_begun_and_ended_here_and_run_there(disk, directory):
    threads = []

    def step():
        threads.append(threading.get_ident())

    def begin():
        threads.append(threading.get_ident())
        return step

    work = DiskWork(directory, "work", begin, ended=lambda _: threads.append(threading.get_ident()))
    await disk.carry_out(work)
    here = threading.get_ident()
    assert [thread == here for thread in threads] == [True, False, True]


async def test_exclusive_work_of_one_directory_goes_one_after_the_other(disk, directory):
    running = []

    def step():
        running.append(1)
        assert len(running) == 1
        running.pop()

    works = [DiskWork(directory, "work", lambda: step, is_exclusive=True) for _ in range(20)]
    await asyncio.gather(*map(disk.carry_out, works))


async def test_a_directory_that_hangs_holds_up_nobody_else(disk, directories):
    go_on, done = threading.Event(), []
    hanging, well = directories
    stuck = [DiskWork(hanging, "stuck", lambda: lambda: go_on.wait(10)) for _ in range(5)]
    async with asyncio.TaskGroup() as tasks:
        for work in stuck:
            tasks.create_task(disk.carry_out(work))
        await asyncio.sleep(0)
        await disk.carry_out(DiskWork(well, "work", lambda: lambda: done.append(go_on.is_set())))
        assert not await disk.run(go_on.is_set)
        assert not await disk.run_in(well, go_on.is_set)
        go_on.set()
    assert done == [False]


async def test_work_that_was_cancelled_is_still_waited_for(disk, directory):
    begun, go_on, ended = threading.Event(), threading.Event(), []

    def step():
        begun.set()
        assert go_on.wait(10)

    work = DiskWork(directory, "work", lambda: step, ended=ended.append)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(disk.carry_out(work))
        await disk.run(begun.wait, 10)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        go_on.set()
    assert task.cancelled()
    assert ended == [False]


async def test_a_failure_takes_the_directory_offline_and_the_rest_is_done(disk, directory):
    def fail():
        raise OSError(5, "broken")

    done = []
    works = [
        DiskWork(directory, "bad", lambda: fail),
        DiskWork(directory, "later", lambda: done.append),
    ]
    await disk.carry_out_all(works)
    assert not directory.is_online
    with pytest.raises(KafkaStorageError):
        await disk.carry_out(works[1])
