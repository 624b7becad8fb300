"""The worker process of the broker."""

import asyncio
import os
import signal
import time
from concurrent.futures import BrokenExecutor
from math import factorial

import pytest

from odradek.broker.worker_process import WorkerProcess, is_interrupted


@pytest.fixture
def worker():
    worker = WorkerProcess()
    yield worker
    worker.close()


def run_until_interrupted(path):
    path.touch()
    deadline = time.monotonic() + 30
    while not is_interrupted():
        assert time.monotonic() < deadline
    return "interrupted"


async def wait_for_file(path):
    while not path.exists():  # noqa: ASYNC110 - only the file system shows it
        await asyncio.sleep(0.001)


async def test_worker_runs_at_its_niceness():
    worker = WorkerProcess(niceness=5)
    try:
        assert await worker.run(os.nice, 0) == min(19, os.nice(0) + 5)
    finally:
        worker.close()


async def test_functions_run_in_the_same_other_process(worker):
    first = await worker.run(os.getpid)
    assert first != os.getpid()
    assert await worker.run(os.getpid) == first
    assert await worker.run(factorial, 5) == 120


async def test_exception_is_raised_in_the_broker(worker):
    with pytest.raises(ValueError, match="factorial"):
        await worker.run(factorial, -1)


async def test_interrupt_stops_the_running_function_only(worker, tmp_path):
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(worker.run(run_until_interrupted, tmp_path / "begun"))
        await wait_for_file(tmp_path / "begun")
        worker.interrupt()
    assert running.result() == "interrupted"
    assert await worker.run(is_interrupted) is False


async def test_close_kills_a_suspended_process(worker, tmp_path):
    process = await worker.run(os.getpid)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(
            outcome_of(worker.run(run_until_interrupted, tmp_path / "begun"))
        )
        await wait_for_file(tmp_path / "begun")
        os.kill(process, signal.SIGSTOP)
        worker.close()
    assert isinstance(running.result(), BrokenExecutor)
    assert await worker.run(factorial, 5) == 120


async def test_result_of_a_cancelled_call_is_not_that_of_the_next(worker, tmp_path):
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(worker.run(run_until_interrupted, tmp_path / "begun"))
        await wait_for_file(tmp_path / "begun")
        running.cancel()
    assert running.cancelled()
    assert await worker.run(factorial, 5) == 120


async def test_process_that_died_is_replaced(worker, tmp_path):
    process = await worker.run(os.getpid)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(
            outcome_of(worker.run(run_until_interrupted, tmp_path / "begun"))
        )
        await wait_for_file(tmp_path / "begun")
        os.kill(process, signal.SIGKILL)
    assert isinstance(running.result(), BrokenExecutor)
    assert await worker.run(os.getpid) != process


async def test_process_that_died_while_idle_is_replaced(worker):
    process = await worker.run(os.getpid)
    os.kill(process, signal.SIGKILL)
    # Returns at once, because the process has been killed.
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
    assert await worker.run(os.getpid) != process


async def outcome_of(awaitable):
    try:
        return await awaitable
    except BrokenExecutor as error:
        return error
