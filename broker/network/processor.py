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

from odradek.broker.call import Peer
from odradek.broker.network.connection import Connection
from odradek.broker.network.failure_log import FailureLog
from odradek.broker.network.pending_answers import Outcome
from odradek.broker.network.receive_buffers import ReceiveBuffers
from odradek.broker.network.request_memory import RequestMemory
from odradek.broker.network.surroundings import Ask, Surroundings, Wait
from odradek.broker.network.transport import PlainTransport

log = logging.getLogger(__name__)

# How late an idle or dead connection may be closed; 2,000 are looked at in a millisecond.
SWEEP_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
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
        ask: Ask,
        wait: Wait,
        ended: Callable[[Peer], None],
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
        now: Callable[[], float] | None = None,
    ) -> None:
        """``ended`` is told of every connection that was adopted, once, when it has closed."""
        self._limits = limits
        self._loop = loop
        self._now = now or loop.time
        self._ended = ended
        self._connections: dict[str, Connection] = {}
        #: Closed, but a handler is still at work for them.
        self._unsettled: dict[str, Connection] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._is_draining = False
        self._drained: asyncio.Event | None = None
        self._around = Surroundings(
            loop=loop,
            now=self._now,
            ask=ask,
            wait=wait,
            ended=self._forget,
            settled=self._settled,
            frame_bytes_max=limits.frame_bytes_max,
            buffers=ReceiveBuffers(),
            memory=RequestMemory(
                limits.request_bytes_max, loop.call_soon, requests_max=limits.requests_max
            ),
            failures=FailureLog(self._now, loop.call_later),
        )

    def __len__(self) -> int:
        return len(self._connections)

    def adopt(self, accepted: socket.socket, peer: Peer) -> None:
        """Serve it from now on; it must not block."""
        connection = Connection(PlainTransport(accepted), peer, self._around)
        self._connections[peer.connection_id] = connection
        if self._is_draining:
            connection.close()
            return
        connection.begin()
        self._sweep_later()

    def deliver(self, connection_id: str, outcome: Outcome) -> None:
        """An answer from another thread; dropped if the peer has gone."""
        connection = self._connections.get(connection_id) or self._unsettled.get(connection_id)
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
        before = self._now() - self._limits.idle_s_max
        for connection in list(self._connections.values()):
            if connection.used_at <= before:
                log.debug("%s was idle for too long", connection.peer.connection_id)
                connection.close()

    def close_dead(self) -> None:
        """Those whose peers have reset them; one that only ended its side is none of them."""
        connections = {each.descriptor: each for each in self._connections.values()}
        poll = select.poll()
        for descriptor in connections:
            # Errors are reported although nothing is asked for.
            poll.register(descriptor, 0)
        for descriptor, _ in poll.poll(0):
            log.debug("%s is gone", connections[descriptor].peer.connection_id)
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
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def _forget(self, connection: Connection) -> None:
        del self._connections[connection.peer.connection_id]
        if connection.is_awaiting:
            self._unsettled[connection.peer.connection_id] = connection
        if not self._connections and self._drained is not None:
            self._drained.set()
        self._ended(connection.peer)

    def _settled(self, connection: Connection) -> None:
        del self._unsettled[connection.peer.connection_id]

    def _sweep_later(self) -> None:
        if self._sweep is None:
            self._sweep = self._loop.call_later(SWEEP_INTERVAL_S, self._sweep_now)

    def _sweep_now(self) -> None:
        self._sweep = None
        self.close_idle()
        self.close_dead()
        if self._connections:
            self._sweep_later()
