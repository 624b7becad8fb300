"""A number that grows, and those who wait for it."""

import asyncio

import pytest

from odradek.broker.replicas.watermark import Watermark
from odradek.protocol.errors import NotLeader


async def test_what_is_reached_already_is_not_waited_for():
    assert await Watermark(5).wait_for(5, timeout_s=0)


async def test_whoever_waits_is_woken_when_it_is_reached_and_not_before():
    watermark = Watermark()
    async with asyncio.TaskGroup() as tasks:
        waiting = [
            tasks.create_task(watermark.wait_for(target, timeout_s=30)) for target in (7, 3, 5)
        ]
        await asyncio.sleep(0)
        assert watermark.waiting == 3
        watermark.advance(5)
        await asyncio.gather(*waiting[1:])
        assert not waiting[0].done()
        assert watermark.waiting == 1
        watermark.advance(9)
    assert all(task.result() for task in waiting)


async def test_time_may_run_out():
    watermark = Watermark()
    assert not await watermark.wait_for(1, timeout_s=0)
    watermark.advance(1)
    assert watermark.value == 1


async def test_whoever_went_is_not_remembered():
    watermark = Watermark()
    async with asyncio.TaskGroup() as tasks:
        patient = tasks.create_task(watermark.wait_for(1, timeout_s=30))
        for target in range(1000, 1100):
            assert not await watermark.wait_for(target, timeout_s=0)
        assert watermark.is_awaited
        assert len(watermark._targets) <= 3
        watermark.advance(1)
        assert not watermark.is_awaited
    assert patient.result()


async def test_those_who_wait_learn_that_it_was_abandoned():
    watermark = Watermark()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(_failure_of(watermark))
        await asyncio.sleep(0)
        watermark.abandon(NotLeader("gone"))
    assert isinstance(waiting.result(), NotLeader)
    watermark.restart(0)
    watermark.advance(1)


async def _failure_of(watermark):
    try:
        return await watermark.wait_for(1, timeout_s=30)
    except NotLeader as failure:
        return failure


def test_it_never_goes_back():
    watermark = Watermark(5)
    with pytest.raises(AssertionError):
        watermark.advance(4)
