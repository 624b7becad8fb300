"""Owns connections for as long as they last: begins, closes and drains them, and ends idle ones.

Idleness needs no timer per connection: one sweep looks at all of them, every second.  As in Kafka,
who waits for an answer is idle too: a peer that has left, but for an end of its input that may mean
less, would otherwise be kept for as long as it had asked us to wait.  The sweep also asks
the kernel which of them are dead: uvloop (0.23) calls a reader once when a connection is reset, and
never again, though it may first have to read what came before.

Owner: its loop.  ``connections`` may be asked from the core loop.
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket
from collections.abc import Callable
from dataclasses import dataclass

from odradek.broker.network.connection import Connection
from odradek.broker.network.connection_services import (
    ConnectionServices,
    SubmitRequest,
    WatchResponse,
)
from odradek.broker.network.failure_log import FailureLog
from odradek.broker.network.memory_pool import MemoryPool
from odradek.broker.network.purgatory import RequestOutcome
from odradek.broker.network.receive_buffers import ReceiveBuffers
from odradek.broker.network.transport import PlainTransport
from odradek.broker.request import RequestContext

log = logging.getLogger(__name__)

# How late an idle or dead connection may be closed; 2,000 are looked at in a millisecond.
SWEEP_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class ProcessorLimits:
    """Of one processor; none is -1."""

    frame_bytes_max: int
    request_bytes_max: int
    requests_max: int
    idle_s_max: float


class Processor:
    """Connections by their ids, and what they share."""

    def __init__(
        self,
        *,
        submit: SubmitRequest,
        watch: WatchResponse,
        on_closed: Callable[[RequestContext], None],
        limits: ProcessorLimits,
        loop: asyncio.AbstractEventLoop,
        now: Callable[[], float] | None = None,
    ) -> None:
        """``ended`` is told of every connection that was adopted, once, when it has closed."""
        self._limits = limits
        self._loop = loop
        self._now = now or loop.time
        self._on_closed = on_closed
        self._connections: dict[str, Connection] = {}
        #: Closed, but a handler is still at work for them.
        self._closed_in_progress: dict[str, Connection] = {}
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._is_draining = False
        self._drained: asyncio.Event | None = None
        self._services = ConnectionServices(
            loop=loop,
            now=self._now,
            submit=submit,
            watch=watch,
            on_closed=self._on_connection_closed,
            on_last_request_done=self._on_last_request_done,
            frame_bytes_max=limits.frame_bytes_max,
            receive_buffers=ReceiveBuffers(),
            memory_pool=MemoryPool(
                limits.request_bytes_max, loop.call_soon, requests_max=limits.requests_max
            ),
            failure_log=FailureLog(self._now, loop.call_later),
        )

    def __len__(self) -> int:
        return len(self._connections)

    def accept(self, accepted_socket: socket.socket, context: RequestContext) -> None:
        """Serve it from now on; it must not block."""
        connection = Connection(PlainTransport(accepted_socket), context, self._services)
        self._connections[context.connection_id] = connection
        if self._is_draining:
            connection.close()
            return
        connection.start()
        self._schedule_sweep()

    def deliver(self, connection_id: str, outcome: RequestOutcome) -> None:
        """An answer from another thread; dropped if the peer has gone."""
        connection = self._connections.get(connection_id) or self._closed_in_progress.get(
            connection_id
        )
        if connection is not None:
            connection.deliver(outcome)

    def resume(self, connection_id: str) -> None:
        """There is room for what could not be handed over."""
        connection = self._connections.get(connection_id)
        if connection is not None:
            connection.resume()

    def connections(self) -> list[Connection]:
        return list(self._connections.values())

    def close(self, connection_id: str, reason: str) -> None:
        connection = self._connections.get(connection_id)
        if connection is not None:
            log.info("%s is closed: %s", connection_id, reason)
            connection.close()

    def close_idle(self) -> None:
        """Those on which nothing happened for too long."""
        if self._limits.idle_s_max < 0:
            return
        cutoff = self._now() - self._limits.idle_s_max
        for connection in list(self._connections.values()):
            if connection.last_used_at <= cutoff:
                log.debug("%s was idle for too long", connection.context.connection_id)
                connection.close()

    def close_dead(self) -> None:
        """Those whose peers have reset them; one that only ended its side is none of them."""
        connections = {
            connection.descriptor: connection for connection in self._connections.values()
        }
        poll = select.poll()
        for descriptor in connections:
            # Errors are reported although nothing is asked for.
            poll.register(descriptor, 0)
        for descriptor, _ in poll.poll(0):
            log.debug("%s is gone", connections[descriptor].context.connection_id)
            connections[descriptor].close()

    async def drain(self) -> None:
        """Read nothing more; returns when all that was owed has gone out, and all is closed."""
        self._is_draining = True
        self._drained = asyncio.Event()
        for connection in list(self._connections.values()):
            connection.drain()
        if self._connections:
            await self._drained.wait()

    def close_all(self) -> None:
        self._is_draining = True
        for connection in list(self._connections.values()):
            connection.close()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None

    def _on_connection_closed(self, connection: Connection) -> None:
        del self._connections[connection.context.connection_id]
        if connection.is_awaiting_response:
            self._closed_in_progress[connection.context.connection_id] = connection
        if not self._connections and self._drained is not None:
            self._drained.set()
        self._on_closed(connection.context)

    def _on_last_request_done(self, connection: Connection) -> None:
        del self._closed_in_progress[connection.context.connection_id]

    def _schedule_sweep(self) -> None:
        if self._sweep_timer is None:
            self._sweep_timer = self._loop.call_later(SWEEP_INTERVAL_S, self._run_sweep)

    def _run_sweep(self) -> None:
        self._sweep_timer = None
        self.close_idle()
        self.close_dead()
        if self._connections:
            self._schedule_sweep()
