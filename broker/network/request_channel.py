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

from odradek.broker.network.connection_services import EnqueueResult
from odradek.broker.network.purgatory import DelayedOperationPurgatory, RequestOutcome, handle_frame
from odradek.broker.request import DelayedOperation, RequestContext, RequestHandler
from odradek.broker.request_log import mark_queued

REQUESTS_PER_WAKEUP = 32


class ProcessorHandle(Protocol):
    """The thread that a request came from; its methods may be called by any other."""

    def enqueue_response(self, connection_id: str, outcome: RequestOutcome) -> None: ...

    def enqueue_resume(self, connection_id: str) -> None: ...


@dataclass(slots=True)
class _QueuedRequest:
    frame: memoryview
    context: RequestContext
    processor: ProcessorHandle


@dataclass(slots=True)
class _BlockedConnection:
    connection_id: str
    processor: ProcessorHandle


class RequestChannel:
    """A queue with a bound."""

    def __init__(
        self,
        handler: RequestHandler,
        *,
        purgatory: DelayedOperationPurgatory,
        loop: asyncio.AbstractEventLoop,
        requests_max: int,
    ) -> None:
        self._handler = handler
        self._purgatory = purgatory
        self._loop = loop
        self._requests_max = requests_max
        self._queue: deque[_QueuedRequest] = deque()
        self._blocked_connections: deque[_BlockedConnection] = deque()
        self._is_wakeup_scheduled = False
        self._is_closed = False

    def enqueue(
        self, processor: ProcessorHandle, frame: memoryview, context: RequestContext
    ) -> EnqueueResult:
        """Called by the thread of ``home``, which hears of the answer by ``deliver_soon``."""
        if len(self._queue) < self._requests_max:
            mark_queued(context)
            self._queue.append(_QueuedRequest(frame, context, processor))
            self.wakeup()
            return EnqueueResult.ENQUEUED
        self._blocked_connections.append(_BlockedConnection(context.connection_id, processor))
        self.wakeup()
        return EnqueueResult.QUEUE_FULL

    def close(self) -> None:
        """Forget what was not taken up, and take up nothing more."""
        self._is_closed = True
        self._queue.clear()
        self._blocked_connections.clear()

    def wakeup(self) -> None:
        """Look who can be taken up, or called: may be said by any thread, and once too often."""
        if not self._is_wakeup_scheduled:
            self._is_wakeup_scheduled = True
            self._loop.call_soon_threadsafe(self._process_queue)

    def _process_queue(self) -> None:
        self._is_wakeup_scheduled = False
        if self._is_closed:
            return
        for _ in range(min(REQUESTS_PER_WAKEUP, len(self._queue))):
            self._handle(self._queue.popleft())
        for _ in range(min(self._requests_max - len(self._queue), len(self._blocked_connections))):
            blocked = self._blocked_connections.popleft()
            blocked.processor.enqueue_resume(blocked.connection_id)
        if self._queue:
            self.wakeup()

    def _handle(self, request: _QueuedRequest) -> None:
        outcome = handle_frame(self._handler, request.frame, request.context)
        deliver = partial(request.processor.enqueue_response, request.context.connection_id)
        if isinstance(outcome, Awaitable):
            if isinstance(outcome, DelayedOperation):
                deliver(outcome)
            self._purgatory.watch(outcome, request.context, deliver)
        else:
            deliver(outcome)
