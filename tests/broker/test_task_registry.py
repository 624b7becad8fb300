"""The broker's tasks."""

import asyncio

import pytest

from odradek.broker.background import SHORTEST_S, Background
from tests.support.loops import at_end


@pytest.fixture
def background():
    return Background()


async def test_a_task_is_awaited_by_whoever_wants_its_result(background):
    async def work():
        return 5

    assert await background.start(work(), "work") == 5


async def test_a_failure_nobody_waits_for_is_logged_with_the_name_of_the_task(background, caplog):
    async def work():
        raise ValueError("broken")

    task = background.start(work(), "work")
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert [record.getMessage() for record in caplog.records] == ["work failed"]


async def test_a_job_comes_round_again_even_if_it_failed(background, caplog):
    at_end(background.stop)
    done = asyncio.Event()
    counts = iter(range(3))

    def job():
        number = next(counts)
        if number == 0:
            raise ValueError("broken")
        if number == 2:
            done.set()

    background.every(lambda: 0.001, job, name="job")
    await done.wait()
    assert [record.getMessage() for record in caplog.records] == [
        "job failed, and will be tried again"
    ]


@pytest.mark.parametrize("interval_s", [0.0, -1.0, 1e-6])
async def test_however_short_the_interval_a_job_leaves_time_for_others(background, interval_s):
    at_end(background.stop)
    times = []
    done = asyncio.Event()

    def job():
        times.append(asyncio.get_running_loop().time())
        if len(times) == 3:
            done.set()

    background.every(lambda: interval_s, job, name="job")
    await done.wait()
    assert times[2] - times[0] >= 2 * SHORTEST_S - 0.01


async def test_stopping_waits_until_everything_has_ended(background):
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
