"""Tests of controller/event_queue.py."""

import asyncio

import pytest

from odradek.controller.event_queue import EventQueue, QueueCleared
from odradek.protocol.errors import NotController


class Handled:
    """Handles events as they say: waits, fails, or answers."""

    def __init__(self):
        self.events = []
        self.go_on = asyncio.Event()

    async def __call__(self, event):
        self.events.append(event)
        if event == "wait":
            await self.go_on.wait()
        if isinstance(event, Exception):
            raise event
        return f"answer to {event}"


async def running(group):
    handled = Handled()
    queue = EventQueue(handled)
    return queue, handled, group.create_task(queue.run())


async def test_events_are_handled_in_order_each_to_its_end():
    async with asyncio.TaskGroup() as group:
        queue, handled, task = await running(group)
        queue.put("wait")
        last = queue.ask("last")
        await asyncio.sleep(0)
        assert (handled.events, queue.current, len(queue)) == (["wait"], "wait", 1)
        handled.go_on.set()
        assert await last == "answer to last"
        assert queue.current is None
        task.cancel()


async def test_equal_events_that_wait_together_are_one():
    async with asyncio.TaskGroup() as group:
        queue, handled, task = await running(group)
        for event in ("a", "b", "a"):
            queue.put_once(event)
        await queue.ask("last")
        queue.put_once("a")
        await queue.ask("last")
        assert handled.events == ["a", "b", "last", "a", "last"]
        task.cancel()


async def test_a_failure_is_told_to_whoever_asked_and_the_next_event_comes(caplog):
    async with asyncio.TaskGroup() as group:
        queue, _, task = await running(group)
        queue.put(ValueError("nobody asked"))
        with pytest.raises(NotController):
            await queue.ask(NotController("asked"))
        assert await queue.ask("next") == "answer to next"
        task.cancel()
    assert [record.exc_info[0] for record in caplog.records] == [ValueError]


async def test_whoever_waits_for_what_is_cleared_is_told():
    async with asyncio.TaskGroup() as group:
        queue, handled, task = await running(group)
        queue.put("wait")
        asked = queue.ask("never")
        await asyncio.sleep(0)
        queue.clear()
        with pytest.raises(QueueCleared):
            await asked
        handled.go_on.set()
        assert await queue.ask("later") == "answer to later"
        assert handled.events == ["wait", "later"]
        task.cancel()


async def test_whoever_waits_when_the_queue_ends_is_told():
    async with asyncio.TaskGroup() as group:
        queue, _, task = await running(group)
        under_way, waiting = queue.ask("wait"), queue.ask("never")
        await asyncio.sleep(0)
        task.cancel()
        for asked in (under_way, waiting):
            with pytest.raises(QueueCleared):
                await asked


async def test_who_does_not_wait_any_longer_disturbs_nobody():
    async with asyncio.TaskGroup() as group:
        queue, handled, task = await running(group)
        queue.put("wait")
        asked = queue.ask("asked")
        await asyncio.sleep(0)
        asked.cancel()
        handled.go_on.set()
        await queue.ask("last")
        assert handled.events == ["wait", "asked", "last"]
        task.cancel()
