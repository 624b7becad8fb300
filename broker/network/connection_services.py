"""What a connection is given: the parts that all connections of one processor share.

Owner: none; the parts have theirs.
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
    """What becomes of a request that another thread answers."""

    ENQUEUED = "its answer will be delivered"
    QUEUE_FULL = "it must be asked again; whoever has room then resumes the connection"


SubmitRequest = Callable[[memoryview, RequestContext], Response | EnqueueResult]
WatchResponse = Callable[
    [Awaitable[Response], RequestContext, Callable[[RequestOutcome], None]], None
]


@dataclass(frozen=True, slots=True)
class ConnectionServices:
    """A connection never closes any of this."""

    loop: asyncio.AbstractEventLoop
    #: Seconds, never jumping.
    now: Callable[[], float]
    submit: SubmitRequest
    watch: WatchResponse
    #: Told once of every connection, when it has closed.
    on_closed: Callable[[Connection], None]
    #: Told of one that had closed before its last request was done: now it is.
    on_last_request_done: Callable[[Connection], None]
    frame_bytes_max: int
    receive_buffers: ReceiveBuffers
    memory_pool: MemoryPool
    failure_log: FailureLog

    def invalid_size_error(self, size: int) -> Disconnect:
        limit = self.frame_bytes_max
        return Disconnect(f"invalid receive (size = {size}): must be between 0 and {limit}")
