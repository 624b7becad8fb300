"""The process beside the broker."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from concurrent.futures import BrokenExecutor
from math import factorial

import pytest

from odradek.broker.worker import NICENESS, Worker, give_way, is_interrupted


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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such a policy")
@pytest.mark.parametrize("gives_way", [False, True])
async def test_what_can_wait_gives_way_to_the_broker(gives_way):
    """All it needs is a core that is not the broker's alone."""
    expected = gives_way and len(os.sched_getaffinity(0)) > 1
    worker = Worker(gives_way=gives_way)
    try:
        policy = await worker.run(os.sched_getscheduler, 0)
        assert (policy == os.SCHED_IDLE) is expected
    finally:
        worker.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it always is")
async def test_on_a_single_core_it_is_nice(worker):
    assert await worker.run(niceness_on_one_core) == min(19, os.nice(0) + NICENESS)


def niceness_on_one_core():
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    give_way()
    return os.nice(0)


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


def until_killed(path):
    path.touch()
    signal.pause()


async def test_what_runs_can_be_given_up_though_it_does_not_listen(worker, tmp_path):
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(outcome_of(worker.run(until_killed, tmp_path / "begun")))
        await appeared(tmp_path / "begun")
        worker.kill()
    assert isinstance(running.result(), BrokenExecutor)
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
    await buried(process)
    assert isinstance(await outcome_of(worker.run(os.getpid)), BrokenExecutor)
    assert await worker.run(os.getpid) != process


async def buried(process):
    """By whoever waited for its end."""
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.kill(process, 0)
            await asyncio.sleep(0.001)


async def outcome_of(waiting):
    try:
        return await waiting
    except BrokenExecutor as failure:
        return failure
