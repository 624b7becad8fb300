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

log = logging.getLogger(__name__)

#: Parked: not yet an outcome, but the frame may be needed no more.
RequestOutcome = ResponseParts | DelayedOperation[Any] | Disconnect | DecodeError | None
StartTask = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]

#: How the name of each task begins.
REQUEST_TASK_PREFIX = "request from "
#: Of what was logged already.
REQUEST_FAILED = Disconnect("the request failed")
_FAILED_MESSAGE = "A request from %s failed; its connection is closed"


def handle_frame(
    handler: RequestHandler, frame: memoryview, context: RequestContext
) -> RequestOutcome | Awaitable[Response]:
    """The answer, or why there is none; for whoever cannot be raised to."""
    try:
        return handler(frame, context)
    except (Disconnect, DecodeError) as error:
        return error
    except Exception:
        log.exception(_FAILED_MESSAGE, context.connection_id)
        return REQUEST_FAILED


class _PendingRequest:
    """One of them."""

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
    """The handlers at work, and what is parked."""

    def __init__(self, start_task: StartTask) -> None:
        """``start`` makes a task of what it is given, and names it."""
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
        """Call ``deliver`` with what becomes of it, and before, if it is parked meanwhile."""
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
        """The peer has gone."""
        pending = self._pending.get(connection_id)
        if pending is not None and pending.is_delayed:
            pending.task.cancel()

    async def cancel_all(self) -> None:
        """Returns when all have ended."""
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
        # First: with its answer a connection may bring its next request.
        del self._pending[pending.context.connection_id]
        pending.deliver(outcome)

    async def _await_final(
        self, response: Awaitable[Response], pending: _PendingRequest
    ) -> ResponseParts | None:
        """What comes after all waiting."""
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
        """What was promised is here, or is not to be."""
        outcome: RequestOutcome = REQUEST_FAILED
        try:
            if not future.cancelled():
                outcome = build_response(future.result())
        except Exception:
            log.exception(_FAILED_MESSAGE, pending.context.connection_id)
        # First: with its answer a connection may bring its next request.
        del self._pending[pending.context.connection_id]
        pending.deliver(outcome)

    def _on_task_done(self, pending: _PendingRequest, task: asyncio.Future[None]) -> None:
        name = pending.context.connection_id
        # It may have come to its end although it was cancelled.
        if task.cancelled() and self._pending.get(name) is pending:
            del self._pending[name]
            pending.deliver(REQUEST_FAILED)


def _discard(response: Awaitable[Response]) -> None:
    """Nobody waits for it: what would be kept for it need not be."""
    if isinstance(response, DelayedFuture):
        response.future.cancel()
