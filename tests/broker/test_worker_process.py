"""The process beside the broker."""

import asyncio
import os
import signal
import time
from concurrent.futures import BrokenExecutor
from math import factorial

import pytest

from odradek.broker.worker import Worker, is_interrupted


@pytest.fixture
def worker():
    worker = Worker()
    yield worker
    worker.close()


def until_interrupted(path):
    path.touch()
    deadline = time.monotonic() + 30
    while not is_interrupted():
        assert time.monotonic() < deadline
    return "interrupted"


async def appeared(path):
    while not path.exists():  # noqa: ASYNC110 - nothing but the file system tells
        await asyncio.sleep(0.001)


async def test_what_can_wait_gives_way_to_the_broker():
    worker = Worker(niceness=5)
    try:
        assert await worker.run(os.nice, 0) == min(19, os.nice(0) + 5)
    finally:
        worker.close()


async def test_a_call_runs_in_another_process_and_the_next_in_the_same(worker):
    first = await worker.run(os.getpid)
    assert first != os.getpid()
    assert await worker.run(os.getpid) == first
    assert await worker.run(factorial, 5) == 120


async def test_a_failure_comes_back(worker):
    with pytest.raises(ValueError, match="factorial"):
        await worker.run(factorial, -1)


async def test_what_runs_can_be_asked_to_stop_and_the_next_call_does_not_know_of_it(
    worker, tmp_path
):
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(worker.run(until_interrupted, tmp_path / "begun"))
        await appeared(tmp_path / "begun")
        worker.interrupt()
    assert running.result() == "interrupted"
    assert await worker.run(is_interrupted) is False


async def test_what_runs_is_given_up_though_it_does_not_even_listen(worker, tmp_path):
    process = await worker.run(os.getpid)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(outcome_of(worker.run(until_interrupted, tmp_path / "begun")))
        await appeared(tmp_path / "begun")
        os.kill(process, signal.SIGSTOP)
        worker.close()
    assert isinstance(running.result(), BrokenExecutor)
    assert await worker.run(factorial, 5) == 120


async def test_an_answer_that_nobody_waits_for_is_not_that_of_the_next_call(worker, tmp_path):
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(worker.run(until_interrupted, tmp_path / "begun"))
        await appeared(tmp_path / "begun")
        running.cancel()
    assert running.cancelled()
    assert await worker.run(factorial, 5) == 120


async def test_a_process_that_died_is_replaced(worker, tmp_path):
    process = await worker.run(os.getpid)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(outcome_of(worker.run(until_interrupted, tmp_path / "begun")))
        await appeared(tmp_path / "begun")
        os.kill(process, signal.SIGKILL)
    assert isinstance(running.result(), BrokenExecutor)
    assert await worker.run(os.getpid) != process


async def test_a_process_that_died_while_it_had_nothing_to_do_is_replaced(worker):
    process = await worker.run(os.getpid)
    os.kill(process, signal.SIGKILL)
    # At once: it has been killed.
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
    assert await worker.run(os.getpid) != process


async def outcome_of(waiting):
    try:
        return await waiting
    except BrokenExecutor as failure:
        return failure
