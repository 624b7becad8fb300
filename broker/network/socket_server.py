"""Socket server: binds all listeners, accepts connections, and stops.

A listener has an acceptor and ``num.network.threads`` processors.  A single processor runs on the
core loop; several processors have a thread each, and a request channel to the core loop.  The
control plane has its own processor and its own channel.

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

from odradek.broker.network.acceptor import Acceptor, AcceptorServices
from odradek.broker.network.connection import Connection
from odradek.broker.network.connection_quotas import ConnectionQuotas, resolve_overrides
from odradek.broker.network.endpoint import Endpoint
from odradek.broker.network.failure_log import FailureLog
from odradek.broker.network.listener import Listener, open_listener, resolve_advertised
from odradek.broker.network.local_connections import LocalConnections
from odradek.broker.network.processor import Processor, ProcessorLimits
from odradek.broker.network.processor_thread import ProcessorThread
from odradek.broker.network.purgatory import DelayedOperationPurgatory, StartTask
from odradek.broker.network.request_channel import RequestChannel
from odradek.broker.request import RequestContext, RequestHandler
from odradek.broker.settings.network import NetworkSettings

log = logging.getLogger("kafka.network")

# As in Kafka, independent of the settings.
CONTROL_PLANE_REQUESTS_MAX = 20


class AnyProcessor(Protocol):
    """A processor on the core loop or on a thread."""

    def __len__(self) -> int: ...

    def accept(self, accepted_socket: socket.socket, context: RequestContext) -> None: ...

    def connections(self) -> list[Connection]: ...

    def close(self, connection_id: str, reason: str) -> None: ...

    async def drain(self) -> None: ...

    def close_all(self) -> None: ...


class ProcessorConnection(NamedTuple):
    """A connection and its processor."""

    processor: AnyProcessor
    connection: Connection


class SocketServer:
    """Call ``open``, then ``start_accepting``, and finally ``stop``."""

    def __init__(
        self,
        settings: NetworkSettings,
        handler: RequestHandler,
        *,
        start_task: StartTask,
        new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        """Must be called on the core loop.  ``new_loop`` creates the event loop of a thread."""
        self._settings = settings
        self._handler = handler
        self._new_loop = new_loop
        self._loop = asyncio.get_running_loop()
        self._start_task = start_task
        self._purgatory = DelayedOperationPurgatory(start_task)
        self._connection_quotas = ConnectionQuotas(settings, now=self._loop.time)
        #: Used by the controller of this broker to connect to this broker.
        self.local_connections = LocalConnections(self._resume_acceptors)
        self._acceptor_services = AcceptorServices(
            connection_quotas=self._connection_quotas,
            local_connections=self.local_connections,
            failure_log=FailureLog(self._loop.time, self._loop.call_later),
            send_buffer_bytes=settings.socket_send_buffer_bytes,
            next_connection_index=count().__next__,
            close_excess_connections=self._close_excess_connections,
        )
        #: Connections that are being closed; a thread takes a moment to do so.
        self._closing_connection_ids: set[str] = set()
        self._listeners: list[Listener] = []
        self._acceptors: dict[str, Acceptor] = {}
        self._processors: dict[str, list[AnyProcessor]] = {}
        self._data_plane_channel = self._create_channel(settings.queued_max_requests)
        self._control_plane_channel = self._create_channel(CONTROL_PLANE_REQUESTS_MAX)

    def __len__(self) -> int:
        """The number of connections."""
        return self._connection_quotas.total

    @property
    def pending_request_count(self) -> int:
        """The number of requests whose response is pending; immediate responses do not count."""
        return len(self._purgatory)

    def connection_counts(self) -> dict[str, int]:
        """Return the number of connections by listener."""
        return {
            name: sum(map(len, listener_processors))
            for name, listener_processors in self._processors.items()
        }

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints of the listeners, with the bound ports."""
        return tuple(listener.endpoint for listener in self._listeners)

    def advertised_endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints that clients and brokers should connect to."""
        return resolve_advertised(self._settings.advertised_endpoints, self._listeners)

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

    def start_accepting(self, names: Collection[str] | None = None) -> None:
        """Accept connections on these listeners, or on all that do not accept yet."""
        for listener in self._listeners:
            name = listener.endpoint.listener
            if name not in self._acceptors and (names is None or name in names):
                self._start_acceptor(listener)
                log.info("Awaiting socket connections on %s", listener.endpoint)

    def apply(self, settings: NetworkSettings) -> None:
        """Apply the dynamic settings: the limits on connections."""
        previous, self._settings = self._settings, settings
        self._connection_quotas.apply(settings)
        self._close_excess_connections()
        self._resume_acceptors()
        if settings.connections_per_host != previous.connections_per_host:
            self._start_task(
                self._resolve_overrides(settings.connections_per_host),
                "resolve max.connections.per.ip.overrides",
            )

    async def stop(self, *, timeout_s: float) -> None:
        """Read nothing more; send the pending responses, but wait no longer than the timeout."""
        for listener in self._listeners:
            if listener.endpoint.listener not in self._acceptors:
                listener.close()
        for acceptor in self._acceptors.values():
            acceptor.stop()
        processors = [
            processor
            for listener_processors in self._processors.values()
            for processor in listener_processors
        ]
        try:
            async with asyncio.timeout(timeout_s), asyncio.TaskGroup() as draining:
                for processor in processors:
                    draining.create_task(processor.drain())
        except TimeoutError:
            log.warning("Shutdown timed out with %d connection(s) awaiting responses", len(self))
        self._data_plane_channel.close()
        self._control_plane_channel.close()
        await self._purgatory.cancel_all()
        for processor in processors:
            processor.close_all()
        # Run the callbacks that the threads scheduled as they ended.
        await asyncio.sleep(0)
        self._processors.clear()
        self._acceptors.clear()
        self._listeners.clear()

    async def _resolve_overrides(self, overrides: Mapping[str, int]) -> None:
        """Resolve host names on a thread, because a name server may be slow."""
        limits_by_address = await self._loop.run_in_executor(None, resolve_overrides, overrides)
        if overrides == self._settings.connections_per_host:
            self._connection_quotas.apply_overrides(limits_by_address)

    def _start_acceptor(self, listener: Listener) -> None:
        name = listener.endpoint.listener
        is_control_plane = name == self._settings.control_plane_listener
        processors = self._create_processors(name, is_control_plane=is_control_plane)
        self._processors[name] = processors
        self._acceptors[name] = Acceptor(
            listener,
            processors,
            self._acceptor_services,
            is_control_plane=is_control_plane,
            loop=self._loop,
        )
        self._acceptors[name].start()

    def _create_processors(self, name: str, *, is_control_plane: bool) -> list[AnyProcessor]:
        limits = self._processor_limits(is_control_plane=is_control_plane)
        threads = self._settings.num_network_threads
        if threads == 1:
            return [self._create_processor(limits)]
        return [
            ProcessorThread(
                self._control_plane_channel if is_control_plane else self._data_plane_channel,
                on_closed=self._on_connection_closed,
                limits=limits,
                loop=self._new_loop(),
                name=f"network-{name}-{number}",
            )
            for number in range(1 if is_control_plane else threads)
        ]

    def _create_channel(self, requests_max: int) -> RequestChannel:
        return RequestChannel(
            self._handler, purgatory=self._purgatory, loop=self._loop, requests_max=requests_max
        )

    def _create_processor(self, limits: ProcessorLimits) -> Processor:
        return Processor(
            submit=self._handler,
            watch=self._purgatory.watch,
            on_closed=self._on_connection_closed,
            limits=limits,
            loop=self._loop,
        )

    def _processor_limits(self, *, is_control_plane: bool) -> ProcessorLimits:
        settings = self._settings
        request_bytes = settings.queued_max_request_bytes
        processor_count = settings.num_network_threads * len(settings.endpoints)
        requests_max = settings.queued_max_requests // settings.num_network_threads
        return ProcessorLimits(
            frame_bytes_max=settings.socket_request_max_bytes,
            request_bytes_max=max(request_bytes // processor_count, 1) if request_bytes > 0 else -1,
            requests_max=CONTROL_PLANE_REQUESTS_MAX if is_control_plane else max(requests_max, 1),
            idle_s_max=settings.connections_max_idle_ms / 1000,
        )

    def _on_connection_closed(self, context: RequestContext) -> None:
        self._purgatory.drop(context.connection_id)
        self._closing_connection_ids.discard(context.connection_id)
        if not context.is_from_this_broker:
            self._connection_quotas.release(context.client_host)
        self._resume_acceptors()

    def _resume_acceptors(self) -> None:
        for acceptor in self._acceptors.values():
            acceptor.resume()

    def _close_excess_connections(self) -> None:
        """Close the least recently used connections of unprotected listeners, if too many."""
        excess = self._connection_quotas.excess - len(self._closing_connection_ids)
        if excess <= 0:
            return
        for entry in nsmallest(
            excess, self._closable_connections(), key=lambda entry: entry.connection.last_used_at
        ):
            connection_id = entry.connection.context.connection_id
            self._closing_connection_ids.add(connection_id)
            entry.processor.close(connection_id, "there are more connections than max.connections")

    def _closable_connections(self) -> Iterator[ProcessorConnection]:
        for name, processors in self._processors.items():
            if self._connection_quotas.is_protected(name):
                continue
            for processor in processors:
                for connection in processor.connections():
                    context = connection.context
                    if (
                        not context.is_from_this_broker
                        and context.connection_id not in self._closing_connection_ids
                    ):
                        yield ProcessorConnection(processor, connection)
