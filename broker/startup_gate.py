"""Delays requests of clients until the broker is ready; requests of the controller pass at once.

Before the controller has sent metadata, clients would see a cluster without brokers or without
their topics, and some clients give up then.  Therefore their requests wait as delayed operations,
and the controller's requests do not wait behind them.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from functools import partial

from odradek.broker.request import DelayedOperation, RequestContext, RequestHandler, Response
from odradek.broker.request_log import mark_queued
from odradek.protocol.api_keys import ApiKey

#: By the first two bytes of a request.  Start-up needs these APIs, or they reveal no metadata.
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
    """The request handler until the broker is ready."""

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
        """Let all delayed requests pass and return the handler for all further requests."""
        self._ready.set()
        return self._handler
