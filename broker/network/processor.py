"""Processor: owns connections, closes idle and dead ones, and drains them at shutdown.

A connection needs no idle timer: one sweep per second checks all of them.  As in Kafka, a
connection that waits for a response is idle too.  Otherwise the connection of a client that left
would stay for as long as the client asked to wait: the end of its input alone does not prove that
it left.  The sweep also polls for dead connections: uvloop (0.23) calls a reader only once when a
connection is reset, although the reader may have to read earlier bytes first.

Owner: its loop.  The core loop may call ``connections``.
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

log = logging.getLogger("kafka.network")

# The longest delay in closing an idle or dead connection; a sweep checks 2,000 in a millisecond.
SWEEP_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class ProcessorLimits:
    """Limits of one processor; -1 means no limit."""

    frame_bytes_max: int
    request_bytes_max: int
    requests_max: int
    idle_s_max: float


class Processor:
    """Connections by id, and their shared services."""

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
        """``on_closed`` is called once for every accepted connection, after it closed."""
        self._limits = limits
        self._loop = loop
        self._now = now or loop.time
        self._on_closed = on_closed
        self._connections: dict[str, Connection] = {}
        #: Closed connections for which a handler still works.
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
        """Serve the connection; its socket must be non-blocking."""
        connection = Connection(PlainTransport(accepted_socket), context, self._services)
        self._connections[context.connection_id] = connection
        if self._is_draining:
            connection.close()
            return
        connection.start()
        self._schedule_sweep()

    def deliver(self, connection_id: str, outcome: RequestOutcome) -> None:
        """Deliver a response from another thread; drop it if the client has disconnected."""
        connection = self._connections.get(connection_id) or self._closed_in_progress.get(
            connection_id
        )
        if connection is not None:
            connection.deliver(outcome)

    def resume(self, connection_id: str) -> None:
        """Continue a connection whose request did not fit into the request channel."""
        connection = self._connections.get(connection_id)
        if connection is not None:
            connection.resume()

    def connections(self) -> list[Connection]:
        return list(self._connections.values())

    def close(self, connection_id: str, reason: str) -> None:
        connection = self._connections.get(connection_id)
        if connection is not None:
            log.info("Closing connection %s: %s", connection_id, reason)
            connection.close()

    def close_idle(self) -> None:
        """Close the connections that were idle for longer than the limit."""
        if self._limits.idle_s_max < 0:
            return
        cutoff = self._now() - self._limits.idle_s_max
        for connection in list(self._connections.values()):
            if connection.last_used_at <= cutoff:
                log.debug("Closing idle connection %s", connection.context.connection_id)
                connection.close()

    def close_dead(self) -> None:
        """Close the connections that their peers reset; a half-closed connection stays open."""
        connections = {
            connection.descriptor: connection for connection in self._connections.values()
        }
        poll = select.poll()
        for descriptor in connections:
            # poll() reports errors although no event is requested.
            poll.register(descriptor, 0)
        for descriptor, _ in poll.poll(0):
            log.debug(
                "Connection with %s disconnected: reset by peer",
                connections[descriptor].context.connection_id,
            )
            connections[descriptor].close()

    async def drain(self) -> None:
        """Read nothing more; return when all owed responses are sent and all is closed."""
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
