"""Answers for as long as the broker starts: the controller at once, everybody else afterwards.

Before the controller has told of the cluster, clients would be shown one without brokers or without
their topics, and some give up on what they see.  So their requests wait, parked: the controller
must not wait behind them.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from functools import partial

from odradek.broker.call import Answer, Answerer, Parked, Peer
from odradek.broker.request_log import stamp
from odradek.protocol.api_keys import ApiKey

#: By the first two bytes of the request; what a broker that starts needs, and what tells nothing.
AT_ONCE = frozenset(
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


class HeldBack:
    """Stands before the answerer until the broker is ready."""

    def __init__(self, answerer: Answerer) -> None:
        self._answerer = answerer
        self._is_ready = asyncio.Event()

    def __call__(self, frame: memoryview, peer: Peer) -> Answer:
        if bytes(frame[:2]) in AT_ONCE:
            return self._answerer(frame, peer)
        if not peer.queued_at:
            stamp(peer)
        return Parked(partial(self._later, frame, peer), needs_frame=True)

    async def _later(self, frame: memoryview, peer: Peer) -> Answer:
        await self._is_ready.wait()
        return self._answerer(frame, peer)

    def let_go(self) -> Answerer:
        """What answers from here on."""
        self._is_ready.set()
        return self._answerer
