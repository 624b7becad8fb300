"""What becomes of requests on the core loop, and the answers that must be waited for.

Each of those has a task of its own, unless it only waits for a future.  Whatever fails ends here:
it closes one connection.

A peer that goes away does not stop a handler at work: what the request began is done, as in Kafka,
and only the answer is dropped.  What is parked has done all it was to do, and is cancelled: else
whoever cuts one long poll after the other leaves us with more and more of them, and every append
would wake them all.  When the broker stops, those at work are cancelled too if they take too long.

Invariant: a connection waits for one answer at a time, and is told what became of it.

Owner: the core loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from odradek.broker.call import Answer, Answerer, Disconnect, Parked, Parts, Peer, Promised
from odradek.protocol.errors import DecodeError

log = logging.getLogger(__name__)

#: Parked: not yet an outcome, but the frame may be needed no more.
Outcome = Parts | Parked[Any] | Disconnect | DecodeError | None
Starter = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]

#: How the name of each task begins.
REQUEST_FROM = "request from "
#: Of what was logged already.
FAILED = Disconnect("the request failed")
_FAILED = "A request from %s failed; its connection is closed"


def outcome_of(answerer: Answerer, frame: memoryview, peer: Peer) -> Outcome | Awaitable[Answer]:
    """The answer, or why there is none; for whoever cannot be raised to."""
    try:
        return answerer(frame, peer)
    except (Disconnect, DecodeError) as broken:
        return broken
    except Exception:
        log.exception(_FAILED, peer.connection_id)
        return FAILED


class _Waiting:
    """One of them."""

    __slots__ = ("deliver", "is_parked", "peer", "task")

    task: asyncio.Future[Any]

    def __init__(self, peer: Peer, deliver: Callable[[Outcome], None], *, is_parked: bool) -> None:
        self.peer = peer
        self.deliver = deliver
        self.is_parked = is_parked


class PendingAnswers:
    """The handlers at work, and what is parked."""

    def __init__(self, start: Starter) -> None:
        """``start`` makes a task of what it is given, and names it."""
        self._start = start
        self._waiting: dict[str, _Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(
        self, answer: Awaitable[Answer], peer: Peer, deliver: Callable[[Outcome], None]
    ) -> None:
        """Call ``deliver`` with what becomes of it, and before, if it is parked meanwhile."""
        is_parked = isinstance(answer, Parked)
        if is_parked and peer.is_gone:
            _take_back(answer)
            deliver(None)
            return
        name = peer.connection_id
        self._waiting[name] = waiting = _Waiting(peer, deliver, is_parked=is_parked)
        if isinstance(answer, Promised):
            waiting.task = answer.future
            waiting.task.add_done_callback(partial(self._kept, waiting, answer.finish))
            return
        waiting.task = self._start(self._outcome(answer, waiting), REQUEST_FROM + name)
        waiting.task.add_done_callback(partial(self._ended, waiting))

    def drop(self, connection_id: str) -> None:
        """The peer has gone."""
        waiting = self._waiting.get(connection_id)
        if waiting is not None and waiting.is_parked:
            waiting.task.cancel()

    async def cancel(self) -> None:
        """Returns when all have ended."""
        tasks = [waiting.task for waiting in self._waiting.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _outcome(self, answer: Awaitable[Answer], waiting: _Waiting) -> None:
        try:
            outcome: Outcome = await self._last(answer, waiting)
        except (Disconnect, DecodeError) as broken:
            outcome = broken
        except Exception:
            log.exception(_FAILED, waiting.peer.connection_id)
            outcome = FAILED
        # First: with its answer a connection may bring its next request.
        del self._waiting[waiting.peer.connection_id]
        waiting.deliver(outcome)

    async def _last(self, answer: Awaitable[Answer], waiting: _Waiting) -> Parts | None:
        """What comes after all waiting."""
        later = await answer
        while isinstance(later, Awaitable):
            waiting.is_parked = isinstance(later, Parked)
            if isinstance(later, Parked):
                if waiting.peer.is_gone:
                    _take_back(later)
                    return None
                waiting.deliver(later)
            later = await later
        return later

    def _kept(
        self,
        waiting: _Waiting,
        finish: Callable[[Any], Parts | None],
        future: asyncio.Future[Any],
    ) -> None:
        """What was promised is here, or is not to be."""
        outcome: Outcome = FAILED
        try:
            if not future.cancelled():
                outcome = finish(future.result())
        except Exception:
            log.exception(_FAILED, waiting.peer.connection_id)
        # First: with its answer a connection may bring its next request.
        del self._waiting[waiting.peer.connection_id]
        waiting.deliver(outcome)

    def _ended(self, waiting: _Waiting, task: asyncio.Future[None]) -> None:
        name = waiting.peer.connection_id
        # It may have come to its end although it was cancelled.
        if task.cancelled() and self._waiting.get(name) is waiting:
            del self._waiting[name]
            waiting.deliver(FAILED)


def _take_back(answer: Awaitable[Answer]) -> None:
    """Nobody waits for it: what would be kept for it need not be."""
    if isinstance(answer, Promised):
        answer.future.cancel()
