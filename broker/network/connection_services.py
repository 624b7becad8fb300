"""Dependencies that all connections of one processor share.

Owner: none; each dependency has its own owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from odradek.broker.network.failure_log import FailureLog
from odradek.broker.network.memory_pool import MemoryPool
from odradek.broker.network.purgatory import RequestOutcome
from odradek.broker.network.receive_buffers import ReceiveBuffers
from odradek.broker.request import Disconnect, RequestContext, Response

if TYPE_CHECKING:
    from odradek.broker.network.connection import Connection


class EnqueueResult(Enum):
    """What happens to a request that another thread handles."""

    ENQUEUED = "its response will be delivered"
    QUEUE_FULL = "it must be submitted again when the channel resumes the connection"


SubmitRequest = Callable[[memoryview, RequestContext], Response | EnqueueResult]
WatchResponse = Callable[
    [Awaitable[Response], RequestContext, Callable[[RequestOutcome], None]], None
]


@dataclass(frozen=True, slots=True)
class ConnectionServices:
    """A connection never closes any of these."""

    loop: asyncio.AbstractEventLoop
    #: A monotonic clock in seconds.
    now: Callable[[], float]
    submit: SubmitRequest
    watch: WatchResponse
    #: Called once for every connection, after it closed.
    on_closed: Callable[[Connection], None]
    #: Called when the last request of a closed connection is done.
    on_last_request_done: Callable[[Connection], None]
    frame_bytes_max: int
    receive_buffers: ReceiveBuffers
    memory_pool: MemoryPool
    failure_log: FailureLog

    def invalid_size_error(self, size: int) -> Disconnect:
        limit = self.frame_bytes_max
        return Disconnect(f"invalid receive (size = {size}): must be between 0 and {limit}")
