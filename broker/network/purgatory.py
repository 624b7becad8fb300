"""Purgatory of pending requests: runs and completes the responses that are not ready at once.

Kafka: DelayedOperationPurgatory, and the error handling of KafkaRequestHandler.

Each pending response has a task, unless it only waits for a future.  Every error ends here and
closes one connection.

A client that disconnects does not stop a handler: the work that its request began is finished, as
in Kafka, and only the response is dropped.  A delayed operation has finished its work and is
cancelled: otherwise a client that aborts one long poll after another would leave more and more of
them, and every append would notify them all.  At shutdown, handlers that take too long are
cancelled too.

Invariant: a connection waits for one response at a time, and always gets its outcome.

Owner: the core loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from odradek.broker.request import (
    DelayedFuture,
    DelayedOperation,
    Disconnect,
    RequestContext,
    RequestHandler,
    Response,
    ResponseParts,
)
from odradek.protocol.errors import DecodeError

log = logging.getLogger("kafka.network")

#: A DelayedOperation is no final outcome; it says that the frame may no longer be needed.
RequestOutcome = ResponseParts | DelayedOperation[Any] | Disconnect | DecodeError | None
StartTask = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]

#: The prefix of the names of request tasks.
REQUEST_TASK_PREFIX = "request from "
#: The outcome of a request whose error is already logged.
REQUEST_FAILED = Disconnect("the request failed")
_FAILED_MESSAGE = "Exception while processing request from %s; closing its connection"


def handle_frame(
    handler: RequestHandler, frame: memoryview, context: RequestContext
) -> RequestOutcome | Awaitable[Response]:
    """Return the response or the error; this never raises an error of the request."""
    try:
        return handler(frame, context)
    except (Disconnect, DecodeError) as error:
        return error
    except Exception:
        log.exception(_FAILED_MESSAGE, context.connection_id)
        return REQUEST_FAILED


class _PendingRequest:
    """A request whose response is pending."""

    __slots__ = ("context", "deliver", "is_delayed", "task")

    task: asyncio.Future[Any]

    def __init__(
        self,
        context: RequestContext,
        deliver: Callable[[RequestOutcome], None],
        *,
        is_delayed: bool,
    ) -> None:
        self.context = context
        self.deliver = deliver
        self.is_delayed = is_delayed


class DelayedOperationPurgatory:
    """Handlers in progress, and delayed operations."""

    def __init__(self, start_task: StartTask) -> None:
        """``start_task`` starts a named task for a coroutine."""
        self._start_task = start_task
        self._pending: dict[str, _PendingRequest] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def watch(
        self,
        response: Awaitable[Response],
        context: RequestContext,
        deliver: Callable[[RequestOutcome], None],
    ) -> None:
        """Call ``deliver`` with the outcome, and before that if the request becomes delayed."""
        is_delayed = isinstance(response, DelayedOperation)
        if is_delayed and context.is_closed:
            _discard(response)
            deliver(None)
            return
        name = context.connection_id
        self._pending[name] = pending = _PendingRequest(context, deliver, is_delayed=is_delayed)
        if isinstance(response, DelayedFuture):
            pending.task = response.future
            pending.task.add_done_callback(
                partial(self._on_future_done, pending, response.build_response)
            )
            return
        pending.task = self._start_task(self._run(response, pending), REQUEST_TASK_PREFIX + name)
        pending.task.add_done_callback(partial(self._on_task_done, pending))

    def drop(self, connection_id: str) -> None:
        """Cancel the delayed operation of a client that has disconnected."""
        pending = self._pending.get(connection_id)
        if pending is not None and pending.is_delayed:
            pending.task.cancel()

    async def cancel_all(self) -> None:
        """Cancel all pending requests; return when they have ended."""
        tasks = [pending.task for pending in self._pending.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, response: Awaitable[Response], pending: _PendingRequest) -> None:
        try:
            outcome: RequestOutcome = await self._await_final(response, pending)
        except (Disconnect, DecodeError) as error:
            outcome = error
        except Exception:
            log.exception(_FAILED_MESSAGE, pending.context.connection_id)
            outcome = REQUEST_FAILED
        # Remove first: the connection may submit its next request as soon as it has the response.
        del self._pending[pending.context.connection_id]
        pending.deliver(outcome)

    async def _await_final(
        self, response: Awaitable[Response], pending: _PendingRequest
    ) -> ResponseParts | None:
        """Await the response until it is neither a handler in progress nor delayed."""
        result = await response
        while isinstance(result, Awaitable):
            pending.is_delayed = isinstance(result, DelayedOperation)
            if isinstance(result, DelayedOperation):
                if pending.context.is_closed:
                    _discard(result)
                    return None
                pending.deliver(result)
            result = await result
        return result

    def _on_future_done(
        self,
        pending: _PendingRequest,
        build_response: Callable[[Any], ResponseParts | None],
        future: asyncio.Future[Any],
    ) -> None:
        """Complete a request whose future is done or cancelled."""
        outcome: RequestOutcome = REQUEST_FAILED
        try:
            if not future.cancelled():
                outcome = build_response(future.result())
        except Exception:
            log.exception(_FAILED_MESSAGE, pending.context.connection_id)
        # Remove first: the connection may submit its next request as soon as it has the response.
        del self._pending[pending.context.connection_id]
        pending.deliver(outcome)

    def _on_task_done(self, pending: _PendingRequest, task: asyncio.Future[None]) -> None:
        name = pending.context.connection_id
        # The request may have completed although its task was cancelled.
        if task.cancelled() and self._pending.get(name) is pending:
            del self._pending[name]
            pending.deliver(REQUEST_FAILED)


def _discard(response: Awaitable[Response]) -> None:
    """Cancel a delayed future that has no client any more; its resources can be released."""
    if isinstance(response, DelayedFuture):
        response.future.cancel()
