"""An offset that advances, and the tasks that wait for it."""

import asyncio

import pytest

from odradek.broker.replicas.awaitable_offset import AwaitableOffset
from odradek.protocol.errors import NotLeaderOrFollower


async def test_reached_offset_needs_no_wait():
    assert await AwaitableOffset(5).wait_for(5, timeout_s=0)


async def test_waiters_complete_when_their_offset_is_reached():
    watermark = AwaitableOffset()
    async with asyncio.TaskGroup() as tasks:
        waiting = [
            tasks.create_task(watermark.wait_for(target, timeout_s=30)) for target in (7, 3, 5)
        ]
        await asyncio.sleep(0)
        assert watermark.waiter_count == 3
        watermark.advance(5)
        await asyncio.gather(*waiting[1:])
        assert not waiting[0].done()
        assert watermark.waiter_count == 1
        watermark.advance(9)
    assert all(task.result() for task in waiting)


async def test_wait_times_out():
    watermark = AwaitableOffset()
    assert not await watermark.wait_for(1, timeout_s=0)
    watermark.advance(1)
    assert watermark.value == 1


async def test_expired_waiters_are_removed():
    watermark = AwaitableOffset()
    async with asyncio.TaskGroup() as tasks:
        patient = tasks.create_task(watermark.wait_for(1, timeout_s=30))
        for target in range(1000, 1100):
            assert not await watermark.wait_for(target, timeout_s=0)
        assert watermark.has_waiters
        assert len(watermark._targets) <= 3
        watermark.advance(1)
        assert not watermark.has_waiters
    assert patient.result()


async def test_fail_waiters_raises_in_the_waiters():
    watermark = AwaitableOffset()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(_wait_error(watermark))
        await asyncio.sleep(0)
        watermark.fail_waiters(NotLeaderOrFollower("gone"))
    assert isinstance(waiting.result(), NotLeaderOrFollower)
    watermark.reset(0)
    watermark.advance(1)


async def _wait_error(watermark):
    try:
        return await watermark.wait_for(1, timeout_s=30)
    except NotLeaderOrFollower as error:
        return error


def test_advancing_backwards_is_an_error():
    watermark = AwaitableOffset(5)
    with pytest.raises(AssertionError):
        watermark.advance(4)
