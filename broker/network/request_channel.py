"""Request channel: requests from processor threads to the core loop, and responses back.

At most ``queued.max.requests`` requests wait in the queue.  A connection whose request does not fit
is blocked, and resumed in order when there is space.  A request leaves the queue when its handler
starts, also if its response is delayed: as in Kafka, any number of consumers may wait for records.

The data plane and the control plane have a channel each.  A channel handles a limited number of
requests per wakeup, so a request of the controller waits for no more data plane requests than that.

Invariant: no request and no response is lost between two threads.  The producer appends to the
queue before it checks whether a wakeup is scheduled; the consumer clears that flag before it reads
the queue.
Owner: the core loop; any thread may call ``enqueue``.
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
    """The processor thread of a request; any thread may call its methods."""

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
    """A bounded queue of requests."""

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
        """Called on the thread of ``processor``; its ``enqueue_response`` gets the response."""
        if len(self._queue) < self._requests_max:
            mark_queued(context)
            self._queue.append(_QueuedRequest(frame, context, processor))
            self.wakeup()
            return EnqueueResult.ENQUEUED
        self._blocked_connections.append(_BlockedConnection(context.connection_id, processor))
        self.wakeup()
        return EnqueueResult.QUEUE_FULL

    def close(self) -> None:
        """Drop the queued requests, and handle no more."""
        self._is_closed = True
        self._queue.clear()
        self._blocked_connections.clear()

    def wakeup(self) -> None:
        """Schedule the queue for processing.  Any thread may call this, also without need."""
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
