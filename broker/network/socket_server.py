"""All listeners together: bound, accepting, drained, closed.

A listener has an acceptor and ``num.network.threads`` processors.  One processor runs on the core
loop; more have a thread each, and a request channel to the core loop.  The control plane has one
processor, and a channel, of its own.

Owner: the core loop.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from heapq import nsmallest
from itertools import count
from typing import NamedTuple, Protocol

from odradek.broker.call import Answerer, Peer
from odradek.broker.network.acceptor import Acceptor, Reception
from odradek.broker.network.connection import Connection
from odradek.broker.network.connection_limits import ConnectionLimits, by_address
from odradek.broker.network.endpoint import Endpoint
from odradek.broker.network.failure_log import FailureLog
from odradek.broker.network.listener import Listener, open_listener, resolved
from odradek.broker.network.own_connections import OwnConnections
from odradek.broker.network.pending_answers import PendingAnswers, Starter
from odradek.broker.network.processor import Limits, Processor
from odradek.broker.network.processor_thread import ProcessorThread
from odradek.broker.network.request_channel import RequestChannel
from odradek.broker.settings.network import NetworkSettings

log = logging.getLogger(__name__)

# As in Kafka, whatever the settings.
CONTROL_PLANE_REQUESTS_MAX = 20


class AnyProcessor(Protocol):
    """On the core loop, or on a thread."""

    def __len__(self) -> int: ...

    def adopt(self, accepted: socket.socket, peer: Peer) -> None: ...

    def connections(self) -> list[Connection]: ...

    def close(self, connection_id: str, reason: str) -> None: ...

    async def drain(self) -> None: ...

    def close_all(self) -> None: ...


class Used(NamedTuple):
    """A connection, and whose it is."""

    processor: AnyProcessor
    connection: Connection


class SocketServer:
    """``open`` it, then ``accept``, in the end ``stop``."""

    def __init__(
        self,
        settings: NetworkSettings,
        answerer: Answerer,
        *,
        start: Starter,
        new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        """To be called on the core loop.  ``new_loop`` makes one for each thread."""
        self._settings = settings
        self._answerer = answerer
        self._new_loop = new_loop
        self._loop = asyncio.get_running_loop()
        self._start = start
        self._pending = PendingAnswers(start)
        self._limits = ConnectionLimits(settings, now=self._loop.time)
        #: By which its own controller connects to this broker.
        self.own = OwnConnections(self._resume_acceptors)
        self._reception = Reception(
            limits=self._limits,
            own=self.own,
            failures=FailureLog(self._loop.time, self._loop.call_later),
            send_buffer_bytes=settings.socket_send_buffer_bytes,
            next_index=count().__next__,
            make_room=self._make_room,
        )
        #: Ids of connections that were told to close; on a thread that takes a moment.
        self._leaving: set[str] = set()
        self._listeners: list[Listener] = []
        self._acceptors: dict[str, Acceptor] = {}
        self._processors: dict[str, list[AnyProcessor]] = {}
        self._data_plane = self._channel(settings.queued_max_requests)
        self._control_plane = self._channel(CONTROL_PLANE_REQUESTS_MAX)

    def __len__(self) -> int:
        """Connections."""
        return self._limits.total

    @property
    def waiting(self) -> int:
        """Requests that are not answered yet, those apart that are answered at once."""
        return len(self._pending)

    def connections(self) -> dict[str, int]:
        """How many each listener has."""
        return {name: sum(map(len, several)) for name, several in self._processors.items()}

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where we listen, with the ports that were bound."""
        return tuple(listener.endpoint for listener in self._listeners)

    def advertised(self) -> tuple[Endpoint, ...]:
        """What clients and brokers are to be told."""
        return resolved(self._settings.advertised_endpoints, self._listeners)

    def open(self) -> None:
        """Bind every listener, or raise ListenerError and leave none open."""
        try:
            for endpoint in self._settings.endpoints:
                listener = open_listener(
                    endpoint,
                    backlog=self._settings.socket_listen_backlog_size,
                    receive_buffer_bytes=self._settings.socket_receive_buffer_bytes,
                )
                self._listeners.append(listener)
        finally:
            if len(self._listeners) < len(self._settings.endpoints):
                while self._listeners:
                    self._listeners.pop().close()

    def accept(self, names: Collection[str] | None = None) -> None:
        """Let clients in, by these listeners, or by all that do not yet."""
        for listener in self._listeners:
            name = listener.endpoint.listener
            if name not in self._acceptors and (names is None or name in names):
                self._accept_at(listener)
                log.info("Accepting connections at %s", listener.endpoint)

    def apply(self, settings: NetworkSettings) -> None:
        """What may change at run time: how many connections, from where, how fast."""
        before, self._settings = self._settings, settings
        self._limits.apply(settings)
        self._make_room()
        self._resume_acceptors()
        if settings.connections_per_host != before.connections_per_host:
            self._start(self._look_up(settings.connections_per_host), "addresses of hosts")

    async def stop(self, *, timeout_s: float) -> None:
        """Read nothing more, and let answers in progress go out, but not for longer than this."""
        for listener in self._listeners:
            if listener.endpoint.listener not in self._acceptors:
                listener.close()
        for acceptor in self._acceptors.values():
            acceptor.stop()
        processors = [each for several in self._processors.values() for each in several]
        try:
            async with asyncio.timeout(timeout_s), asyncio.TaskGroup() as draining:
                for processor in processors:
                    draining.create_task(processor.drain())
        except TimeoutError:
            log.warning("%d connections still had answers to come", len(self))
        self._data_plane.close()
        self._control_plane.close()
        await self._pending.cancel()
        for processor in processors:
            processor.close_all()
        # What the threads had to say as they ended.
        await asyncio.sleep(0)
        self._processors.clear()
        self._acceptors.clear()
        self._listeners.clear()

    async def _look_up(self, overrides: Mapping[str, int]) -> None:
        """On a thread: a server of names may be slow."""
        found = await self._loop.run_in_executor(None, by_address, overrides)
        if overrides == self._settings.connections_per_host:
            self._limits.apply_overrides(found)

    def _accept_at(self, listener: Listener) -> None:
        name = listener.endpoint.listener
        is_control_plane = name == self._settings.control_plane_listener
        processors = self._processors_of(name, is_control_plane=is_control_plane)
        self._processors[name] = processors
        self._acceptors[name] = Acceptor(
            listener,
            processors,
            self._reception,
            is_control_plane=is_control_plane,
            loop=self._loop,
        )
        self._acceptors[name].begin()

    def _processors_of(self, name: str, *, is_control_plane: bool) -> list[AnyProcessor]:
        limits = self._processor_limits(is_control_plane=is_control_plane)
        threads = self._settings.num_network_threads
        if threads == 1:
            return [self._processor(limits)]
        return [
            ProcessorThread(
                self._control_plane if is_control_plane else self._data_plane,
                ended=self._connection_ended,
                limits=limits,
                loop=self._new_loop(),
                name=f"network-{name}-{number}",
            )
            for number in range(1 if is_control_plane else threads)
        ]

    def _channel(self, requests_max: int) -> RequestChannel:
        return RequestChannel(
            self._answerer, pending=self._pending, loop=self._loop, requests_max=requests_max
        )

    def _processor(self, limits: Limits) -> Processor:
        return Processor(
            ask=self._answerer,
            wait=self._pending.wait,
            ended=self._connection_ended,
            limits=limits,
            loop=self._loop,
        )

    def _processor_limits(self, *, is_control_plane: bool) -> Limits:
        settings = self._settings
        request_bytes = settings.queued_max_request_bytes
        sharing = settings.num_network_threads * len(settings.endpoints)
        requests_max = settings.queued_max_requests // settings.num_network_threads
        return Limits(
            frame_bytes_max=settings.socket_request_max_bytes,
            request_bytes_max=max(request_bytes // sharing, 1) if request_bytes > 0 else -1,
            requests_max=CONTROL_PLANE_REQUESTS_MAX if is_control_plane else max(requests_max, 1),
            idle_s_max=settings.connections_max_idle_ms / 1000,
        )

    def _connection_ended(self, peer: Peer) -> None:
        self._pending.drop(peer.connection_id)
        self._leaving.discard(peer.connection_id)
        if not peer.is_own:
            self._limits.release(peer.client_host)
        self._resume_acceptors()

    def _resume_acceptors(self) -> None:
        for acceptor in self._acceptors.values():
            acceptor.resume()

    def _make_room(self) -> None:
        """Close the least recently used connections of listeners without privilege, if too many."""
        excess = self._limits.excess - len(self._leaving)
        if excess <= 0:
            return
        for used in nsmallest(excess, self._closable(), key=lambda each: each.connection.used_at):
            connection_id = used.connection.peer.connection_id
            self._leaving.add(connection_id)
            used.processor.close(connection_id, "there are more than max.connections")

    def _closable(self) -> Iterator[Used]:
        for name, processors in self._processors.items():
            if self._limits.is_privileged(name):
                continue
            for processor in processors:
                for connection in processor.connections():
                    peer = connection.peer
                    if not peer.is_own and peer.connection_id not in self._leaving:
                        yield Used(processor, connection)
