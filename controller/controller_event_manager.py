"""One queue, one task: the only one that changes the controller's picture of the cluster.

Whatever happens (a watch fires, a broker answers, an administrator asks) becomes an event in the
queue; events are handled one after the other, each to its end.  Whoever wants to know what came of
an event asks, and waits for what its handler returns or raises.

A handler that fails is logged, and the next event comes: the failure of one must not stop them all.
What means more than that (another broker is the controller now, the session is over) is for
``handle`` itself to notice.

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

log = logging.getLogger(__name__)


class EventPreempted(Exception):
    """The event was never handled: the session that it belonged to is over, or the queue closed."""


@dataclass(slots=True)
class _QueuedEvent:
    event: object
    future: asyncio.Future[Any] | None = None
    is_unique: bool = False


class ControllerEventManager:
    """Events in the order in which they came."""

    def __init__(self, process_event: Callable[[Any], Awaitable[Any]]) -> None:
        """``handle`` is called with one event at a time; see ``run``."""
        self._process_event = process_event
        self._queue: deque[_QueuedEvent] = deque()
        #: Those of them that were put once.
        self._queued_unique: set[Hashable] = set()
        self._has_events = asyncio.Event()
        #: What is being handled, for whoever wants to show it.
        self.current_event: object | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, event: object) -> None:
        """To be handled in its turn; nobody waits for it."""
        self._enqueue(_QueuedEvent(event))

    def put_if_absent(self, event: Hashable) -> None:
        """Unless an equal one is waiting already, which will see whatever this one would."""
        if event not in self._queued_unique:
            self._queued_unique.add(event)
            self._enqueue(_QueuedEvent(event, is_unique=True))

    def submit(self, event: object) -> asyncio.Future[Any]:
        """To be handled in its turn; what its handler returns or raises."""
        future = asyncio.get_running_loop().create_future()
        self._enqueue(_QueuedEvent(event, future))
        return future

    def clear(self) -> None:
        """Forget what waits.  Whoever asked is told that it was not handled."""
        queued_events, self._queue = self._queue, deque()
        self._queued_unique.clear()
        for queued in queued_events:
            if queued.future is not None and not queued.future.done():
                queued.future.set_exception(EventPreempted(str(queued.event)))

    async def run(self) -> None:
        """Handle events until cancelled."""
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
                log.exception("%s was not handled to its end", queued_event.event)
            if future is not None and not future.done():
                future.set_exception(error)
        else:
            if future is not None and not future.done():
                future.set_result(result)
        finally:
            self.current_event = None
