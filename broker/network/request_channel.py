"""Requests from the threads of processors to the core loop, and answers back.

At most ``queued.max.requests`` lie here before they are taken up; whoever comes with another is
told to come again, and called in turn when there is room.  What was taken up is out of the queue,
also while its answer is waited for: as in Kafka, any number of consumers may wait for new records.

Each plane has a channel of its own, and takes up only so many at a time, so that the controller's
requests are never behind more than that of the others.

Invariant: nothing is lost between two threads.  Both add to a queue before they look whether the
other is awake; who wakes up first says so and then looks into the queue.
Owner: the core loop; ``hand_over`` may be called by any thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from odradek.broker.call import Answerer, Parked, Peer
from odradek.broker.network.pending_answers import Outcome, PendingAnswers, outcome_of
from odradek.broker.network.surroundings import HandOver
from odradek.broker.request_log import stamp

TAKEN_PER_TURN = 32


class Home(Protocol):
    """The thread that a request came from; its methods may be called by any other."""

    def deliver_soon(self, connection_id: str, outcome: Outcome) -> None: ...

    def resume_soon(self, connection_id: str) -> None: ...


@dataclass(slots=True)
class _Request:
    frame: memoryview
    peer: Peer
    home: Home


@dataclass(slots=True)
class _Waiting:
    connection_id: str
    home: Home


class RequestChannel:
    """A queue with a bound."""

    def __init__(
        self,
        answerer: Answerer,
        *,
        pending: PendingAnswers,
        loop: asyncio.AbstractEventLoop,
        requests_max: int,
    ) -> None:
        self._answerer = answerer
        self._pending = pending
        self._loop = loop
        self._requests_max = requests_max
        self._queue: deque[_Request] = deque()
        self._waiting: deque[_Waiting] = deque()
        self._is_awake = False
        self._is_closed = False

    def hand_over(self, home: Home, frame: memoryview, peer: Peer) -> HandOver:
        """Called by the thread of ``home``, which hears of the answer by ``deliver_soon``."""
        if len(self._queue) < self._requests_max:
            stamp(peer)
            self._queue.append(_Request(frame, peer, home))
            self.wake()
            return HandOver.TAKEN
        self._waiting.append(_Waiting(peer.connection_id, home))
        self.wake()
        return HandOver.NO_ROOM

    def close(self) -> None:
        """Forget what was not taken up, and take up nothing more."""
        self._is_closed = True
        self._queue.clear()
        self._waiting.clear()

    def wake(self) -> None:
        """Look who can be taken up, or called: may be said by any thread, and once too often."""
        if not self._is_awake:
            self._is_awake = True
            self._loop.call_soon_threadsafe(self._take_up)

    def _take_up(self) -> None:
        self._is_awake = False
        if self._is_closed:
            return
        for _ in range(min(TAKEN_PER_TURN, len(self._queue))):
            self._answer(self._queue.popleft())
        for _ in range(min(self._requests_max - len(self._queue), len(self._waiting))):
            waiting = self._waiting.popleft()
            waiting.home.resume_soon(waiting.connection_id)
        if self._queue:
            self.wake()

    def _answer(self, request: _Request) -> None:
        outcome = outcome_of(self._answerer, request.frame, request.peer)
        deliver = partial(request.home.deliver_soon, request.peer.connection_id)
        if isinstance(outcome, Awaitable):
            if isinstance(outcome, Parked):
                deliver(outcome)
            self._pending.wait(outcome, request.peer, deliver)
        else:
            deliver(outcome)
