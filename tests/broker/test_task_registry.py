"""The registry of the broker's background tasks."""

import asyncio

import pytest

from odradek.broker.task_registry import MIN_INTERVAL_S, TaskRegistry
from tests.support.loops import at_end


@pytest.fixture
def background():
    return TaskRegistry()


async def test_result_of_task_can_be_awaited(background):
    async def work():
        return 5

    assert await background.start(work(), "work") == 5


async def test_failure_of_unawaited_task_is_logged_with_its_name(background, caplog):
    async def work():
        raise ValueError("broken")

    task = background.start(work(), "work")
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert [record.getMessage() for record in caplog.records] == ["Task 'work' failed"]


async def test_scheduled_job_runs_again_after_a_failure(background, caplog):
    at_end(background.stop)
    done = asyncio.Event()
    counts = iter(range(3))

    def job():
        number = next(counts)
        if number == 0:
            raise ValueError("broken")
        if number == 2:
            done.set()

    background.schedule(lambda: 0.001, job, name="job")
    await done.wait()
    assert [record.getMessage() for record in caplog.records] == [
        "Uncaught exception in scheduled task 'job'"
    ]


@pytest.mark.parametrize("interval_s", [0.0, -1.0, 1e-6])
async def test_interval_of_scheduled_job_has_a_minimum(background, interval_s):
    at_end(background.stop)
    times = []
    done = asyncio.Event()

    def job():
        times.append(asyncio.get_running_loop().time())
        if len(times) == 3:
            done.set()

    background.schedule(lambda: interval_s, job, name="job")
    await done.wait()
    assert times[2] - times[0] >= 2 * MIN_INTERVAL_S - 0.01


async def test_stop_waits_for_all_tasks(background):
    ended = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    background.start(work(), "one")
    background.start(work(), "two")
    await asyncio.sleep(0)
    await background.stop()
    assert ended == [True, True]
