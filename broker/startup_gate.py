"""Answers for as long as the broker starts: the controller at once, everybody else afterwards.

Before the controller has told of the cluster, clients would be shown one without brokers or without
their topics, and some give up on what they see.  So their requests wait, parked: the controller
must not wait behind them.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from functools import partial

from odradek.broker.request import DelayedOperation, RequestContext, RequestHandler, Response
from odradek.broker.request_log import mark_queued
from odradek.protocol.api_keys import ApiKey

#: By the first two bytes of the request; what a broker that starts needs, and what tells nothing.
UNGATED_APIS = frozenset(
    int(key).to_bytes(2, "big")
    for key in (
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ALTER_PARTITION,
        ApiKey.API_VERSIONS,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
    )
)


class StartupGate:
    """Stands before the answerer until the broker is ready."""

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler
        self._ready = asyncio.Event()

    def __call__(self, frame: memoryview, context: RequestContext) -> Response:
        if bytes(frame[:2]) in UNGATED_APIS:
            return self._handler(frame, context)
        if not context.queued_at:
            mark_queued(context)
        return DelayedOperation(partial(self._handle_when_ready, frame, context), needs_frame=True)

    async def _handle_when_ready(self, frame: memoryview, context: RequestContext) -> Response:
        await self._ready.wait()
        return self._handler(frame, context)

    def open(self) -> RequestHandler:
        """What answers from here on."""
        self._ready.set()
        return self._handler
