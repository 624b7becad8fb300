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


class QueueCleared(Exception):
    """The event was never handled: the session that it belonged to is over, or the queue closed."""


@dataclass(slots=True)
class _Queued:
    event: object
    answer: asyncio.Future[Any] | None = None
    is_once: bool = False


class EventQueue:
    """Events in the order in which they came."""

    def __init__(self, handle: Callable[[Any], Awaitable[Any]]) -> None:
        """``handle`` is called with one event at a time; see ``run``."""
        self._handle = handle
        self._waiting: deque[_Queued] = deque()
        #: Those of them that were put once.
        self._waiting_once: set[Hashable] = set()
        self._arrived = asyncio.Event()
        #: What is being handled, for whoever wants to show it.
        self.current: object | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, event: object) -> None:
        """To be handled in its turn; nobody waits for it."""
        self._add(_Queued(event))

    def put_once(self, event: Hashable) -> None:
        """Unless an equal one is waiting already, which will see whatever this one would."""
        if event not in self._waiting_once:
            self._waiting_once.add(event)
            self._add(_Queued(event, is_once=True))

    def ask(self, event: object) -> asyncio.Future[Any]:
        """To be handled in its turn; what its handler returns or raises."""
        answer = asyncio.get_running_loop().create_future()
        self._add(_Queued(event, answer))
        return answer

    def clear(self) -> None:
        """Forget what waits.  Whoever asked is told that it was not handled."""
        waiting, self._waiting = self._waiting, deque()
        self._waiting_once.clear()
        for queued in waiting:
            if queued.answer is not None and not queued.answer.done():
                queued.answer.set_exception(QueueCleared(str(queued.event)))

    async def run(self) -> None:
        """Handle events until cancelled."""
        try:
            while True:
                while self._waiting:
                    await self._handle_one(self._next())
                self._arrived.clear()
                await self._arrived.wait()
        finally:
            self.clear()

    def _add(self, queued: _Queued) -> None:
        self._waiting.append(queued)
        self._arrived.set()

    def _next(self) -> _Queued:
        queued = self._waiting.popleft()
        if queued.is_once:
            self._waiting_once.discard(queued.event)
        return queued

    async def _handle_one(self, queued: _Queued) -> None:
        self.current = queued.event
        answer = queued.answer
        try:
            outcome = await self._handle(queued.event)
        except asyncio.CancelledError:
            if answer is not None and not answer.done():
                answer.set_exception(QueueCleared(str(queued.event)))
            raise
        except Exception as failure:
            if answer is None or answer.done() or not isinstance(failure, KafkaError):
                log.exception("%s was not handled to its end", queued.event)
            if answer is not None and not answer.done():
                answer.set_exception(failure)
        else:
            if answer is not None and not answer.done():
                answer.set_result(outcome)
        finally:
            self.current = None
