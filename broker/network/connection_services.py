"""What a connection is given: the parts that all connections of one processor share.

Owner: none; the parts have theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from odradek.broker.call import Answer, Disconnect, Peer
from odradek.broker.network.failure_log import FailureLog
from odradek.broker.network.pending_answers import Outcome
from odradek.broker.network.receive_buffers import ReceiveBuffers
from odradek.broker.network.request_memory import RequestMemory

if TYPE_CHECKING:
    from odradek.broker.network.connection import Connection


class HandOver(Enum):
    """What becomes of a request that another thread answers."""

    TAKEN = "its answer will be delivered"
    NO_ROOM = "it must be asked again; whoever has room then resumes the connection"


Ask = Callable[[memoryview, Peer], Answer | HandOver]
Wait = Callable[[Awaitable[Answer], Peer, Callable[[Outcome], None]], None]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A connection never closes any of this."""

    loop: asyncio.AbstractEventLoop
    #: Seconds, never jumping.
    now: Callable[[], float]
    ask: Ask
    wait: Wait
    #: Told once of every connection, when it has closed.
    ended: Callable[[Connection], None]
    #: Told of one that had closed before its last request was done: now it is.
    settled: Callable[[Connection], None]
    frame_bytes_max: int
    buffers: ReceiveBuffers
    memory: RequestMemory
    failures: FailureLog

    def refused(self, size: int) -> Disconnect:
        most = self.frame_bytes_max
        return Disconnect(f"a request of {size} bytes, where 0 to {most} are allowed")
