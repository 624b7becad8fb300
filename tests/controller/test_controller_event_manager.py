"""Tests of controller/controller_event_manager.py."""

import asyncio

import pytest

from odradek.controller.controller_event_manager import ControllerEventManager, EventPreempted
from odradek.protocol.errors import NotController


class RecordingHandler:
    """An event handler. The event decides whether it waits, raises or returns a result."""

    def __init__(self):
        self.events = []
        self.may_continue = asyncio.Event()

    async def __call__(self, event):
        self.events.append(event)
        if event == "wait":
            await self.may_continue.wait()
        if isinstance(event, Exception):
            raise event
        return f"answer to {event}"


async def start_queue(group):
    handler = RecordingHandler()
    queue = ControllerEventManager(handler)
    return queue, handler, group.create_task(queue.run())


async def test_events_are_handled_one_after_the_other_in_order():
    async with asyncio.TaskGroup() as group:
        queue, handler, task = await start_queue(group)
        queue.put("wait")
        last = queue.submit("last")
        await asyncio.sleep(0)
        assert (handler.events, queue.current_event, len(queue)) == (["wait"], "wait", 1)
        handler.may_continue.set()
        assert await last == "answer to last"
        assert queue.current_event is None
        task.cancel()


async def test_put_if_absent_skips_an_event_that_is_already_queued():
    async with asyncio.TaskGroup() as group:
        queue, handler, task = await start_queue(group)
        for event in ("a", "b", "a"):
            queue.put_if_absent(event)
        await queue.submit("last")
        queue.put_if_absent("a")
        await queue.submit("last")
        assert handler.events == ["a", "b", "last", "a", "last"]
        task.cancel()


async def test_handler_error_is_raised_to_the_caller_or_logged_and_queue_continues(caplog):
    async with asyncio.TaskGroup() as group:
        queue, _, task = await start_queue(group)
        queue.put(ValueError("nobody asked"))
        with pytest.raises(NotController):
            await queue.submit(NotController("asked"))
        assert await queue.submit("next") == "answer to next"
        task.cancel()
    assert [record.exc_info[0] for record in caplog.records] == [ValueError]


async def test_clear_preempts_queued_events():
    async with asyncio.TaskGroup() as group:
        queue, handler, task = await start_queue(group)
        queue.put("wait")
        submitted = queue.submit("never")
        await asyncio.sleep(0)
        queue.clear()
        with pytest.raises(EventPreempted):
            await submitted
        handler.may_continue.set()
        assert await queue.submit("later") == "answer to later"
        assert handler.events == ["wait", "later"]
        task.cancel()


async def test_cancelled_queue_preempts_running_and_queued_events():
    async with asyncio.TaskGroup() as group:
        queue, _, task = await start_queue(group)
        under_way, waiting = queue.submit("wait"), queue.submit("never")
        await asyncio.sleep(0)
        task.cancel()
        for submitted in (under_way, waiting):
            with pytest.raises(EventPreempted):
                await submitted


async def test_cancelled_caller_does_not_stop_the_queue():
    async with asyncio.TaskGroup() as group:
        queue, handler, task = await start_queue(group)
        queue.put("wait")
        submitted = queue.submit("asked")
        await asyncio.sleep(0)
        submitted.cancel()
        handler.may_continue.set()
        await queue.submit("last")
        assert handler.events == ["wait", "asked", "last"]
        task.cancel()
