"""The thread pool for blocking disk operations."""

import asyncio
import threading

import pytest

from odradek.broker.disk_executor import DiskExecutor
from odradek.protocol.errors import KafkaStorageError
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.manager.disk_task import DiskTask
from tests.support.log_managers import Notebook


@pytest.fixture
def disk():
    disk = DiskExecutor(2)
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


async def test_function_runs_on_another_thread(disk):
    assert await disk.run(threading.get_ident) != threading.get_ident()


async def test_task_begins_and_completes_on_the_loop_and_runs_on_a_thread(disk, directory):
    threads = []

    def step():
        threads.append(threading.get_ident())

    def begin():
        threads.append(threading.get_ident())
        return step

    task = DiskTask(
        directory, "work", begin, on_complete=lambda _: threads.append(threading.get_ident())
    )
    await disk.execute(task)
    loop_thread = threading.get_ident()
    assert [thread == loop_thread for thread in threads] == [True, False, True]


async def test_exclusive_tasks_of_a_directory_run_one_at_a_time(disk, directory):
    running = []

    def step():
        running.append(1)
        assert len(running) == 1
        running.pop()

    tasks = [DiskTask(directory, "work", lambda: step, is_exclusive=True) for _ in range(20)]
    await asyncio.gather(*map(disk.execute, tasks))


async def test_hanging_directory_does_not_delay_another(disk, directories):
    release, done = threading.Event(), []
    hanging, healthy = directories
    stuck = [DiskTask(hanging, "stuck", lambda: lambda: release.wait(10)) for _ in range(5)]
    async with asyncio.TaskGroup() as tasks:
        for task in stuck:
            tasks.create_task(disk.execute(task))
        await asyncio.sleep(0)
        await disk.execute(DiskTask(healthy, "work", lambda: lambda: done.append(release.is_set())))
        assert not await disk.run(release.is_set)
        assert not await disk.run_in(healthy, release.is_set)
        release.set()
    assert done == [False]


async def test_cancelled_task_is_awaited_until_it_ends(disk, directory):
    begun, release, ended = threading.Event(), threading.Event(), []

    def step():
        begun.set()
        assert release.wait(10)

    disk_task = DiskTask(directory, "work", lambda: step, on_complete=ended.append)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(disk.execute(disk_task))
        await disk.run(begun.wait, 10)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        release.set()
    assert task.cancelled()
    assert ended == [False]


async def test_failure_takes_the_directory_offline_and_the_rest_is_rejected(disk, directory):
    def fail():
        raise OSError(5, "broken")

    done = []
    tasks = [
        DiskTask(directory, "bad", lambda: fail),
        DiskTask(directory, "later", lambda: done.append),
    ]
    await disk.execute_all(tasks)
    assert not directory.is_online
    with pytest.raises(KafkaStorageError):
        await disk.execute(tasks[1])
