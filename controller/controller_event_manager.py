"""The event queue of the controller; its task is the only code that changes ControllerContext.

Kafka: ControllerEventManager and ControllerEventThread.

Watches, broker responses and requests of administrators become events in the queue.  Events are
processed one after the other, each to completion.  A caller that needs the result of an event
submits it and awaits the value that its handler returns or raises.

An exception in a handler is logged and does not stop the queue.  ``process_event`` itself handles
exceptions that end the controllership: another broker is the controller, or the session expired.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any

from odradek.protocol.errors import KafkaError

log = logging.getLogger("kafka.controller")


class EventPreempted(Exception):
    """The event was not processed: its session expired, or the queue was closed."""


@dataclass(slots=True)
class _QueuedEvent:
    event: object
    future: asyncio.Future[Any] | None = None
    is_unique: bool = False


class ControllerEventManager:
    """A first-in, first-out queue of events."""

    def __init__(self, process_event: Callable[[Any], Awaitable[Any]]) -> None:
        """``process_event`` is called with one event at a time; see ``run``."""
        self._process_event = process_event
        self._queue: deque[_QueuedEvent] = deque()
        #: The queued events that were added with ``put_if_absent``.
        self._queued_unique: set[Hashable] = set()
        self._has_events = asyncio.Event()
        #: The event that is being processed, for diagnostics.
        self.current_event: object | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, event: object) -> None:
        """Queue an event whose result is not needed."""
        self._enqueue(_QueuedEvent(event))

    def put_if_absent(self, event: Hashable) -> None:
        """Queue an event unless an equal one is queued, which then reads the same state."""
        if event not in self._queued_unique:
            self._queued_unique.add(event)
            self._enqueue(_QueuedEvent(event, is_unique=True))

    def submit(self, event: object) -> asyncio.Future[Any]:
        """Queue an event and return a future for the result or exception of its handler."""
        future = asyncio.get_running_loop().create_future()
        self._enqueue(_QueuedEvent(event, future))
        return future

    def clear(self) -> None:
        """Drop all queued events.  The futures of submitted events raise EventPreempted."""
        queued_events, self._queue = self._queue, deque()
        self._queued_unique.clear()
        for queued in queued_events:
            if queued.future is not None and not queued.future.done():
                queued.future.set_exception(EventPreempted(str(queued.event)))

    async def run(self) -> None:
        """Process events until cancelled."""
        try:
            while True:
                while self._queue:
                    await self._process(self._pop())
                self._has_events.clear()
                await self._has_events.wait()
        finally:
            self.clear()

    def _enqueue(self, queued_event: _QueuedEvent) -> None:
        self._queue.append(queued_event)
        self._has_events.set()

    def _pop(self) -> _QueuedEvent:
        queued = self._queue.popleft()
        if queued.is_unique:
            self._queued_unique.discard(queued.event)
        return queued

    async def _process(self, queued_event: _QueuedEvent) -> None:
        self.current_event = queued_event.event
        future = queued_event.future
        try:
            result = await self._process_event(queued_event.event)
        except asyncio.CancelledError:
            if future is not None and not future.done():
                future.set_exception(EventPreempted(str(queued_event.event)))
            raise
        except Exception as error:
            if future is None or future.done() or not isinstance(error, KafkaError):
                log.exception("Error processing event %s", queued_event.event)
            if future is not None and not future.done():
                future.set_exception(error)
        else:
            if future is not None and not future.done():
                future.set_result(result)
        finally:
            self.current_event = None
