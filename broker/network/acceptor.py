"""Acceptor: accepts the connections of one listener and assigns them round-robin to its processors.

It accepts a few connections per wakeup, so a burst of new connections does not delay the existing
ones.  When a connection quota or the creation rate is reached, it stops accepting, and new
connections wait in the backlog.  When the process runs out of file descriptors or kernel memory, it
pauses until a connection closes or ACCEPT_RETRY_S has passed, because an immediate retry would only
burn CPU.

Owner: the core loop.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Protocol

from odradek.broker.network.connection_quotas import ConnectionQuotas, normalize_address
from odradek.broker.network.failure_log import FailureLog
from odradek.broker.network.listener import USE_DEFAULT_BUFFER_SIZE, Listener
from odradek.broker.network.local_connections import LocalConnections
from odradek.broker.request import RequestContext

log = logging.getLogger("kafka.network")

ACCEPTS_PER_WAKEUP = 16
ACCEPT_RETRY_S = 0.5

_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class ConnectionReceiver(Protocol):
    """The part of a processor that the acceptor uses."""

    def accept(self, accepted_socket: socket.socket, context: RequestContext) -> None: ...


@dataclass(frozen=True, slots=True)
class AcceptorServices:
    """Dependencies that the acceptors of all listeners share."""

    connection_quotas: ConnectionQuotas
    local_connections: LocalConnections
    failure_log: FailureLog
    send_buffer_bytes: int
    #: Returns a new index for each connection.
    next_connection_index: Callable[[], int]
    #: Called when a connection of a protected listener exceeds max.connections.
    close_excess_connections: Callable[[], None]


class Acceptor:
    """Accepts the connections of one listener."""

    def __init__(
        self,
        listener: Listener,
        processors: Sequence[ConnectionReceiver],
        services: AcceptorServices,
        *,
        is_control_plane: bool,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._listener = listener
        self._listener_name = listener.endpoint.listener
        self._processors = cycle(processors)
        self._services = services
        self._is_control_plane = is_control_plane
        self._loop = loop
        self._is_accepting = False
        self._is_waiting_for_slot = False
        self._is_out_of_resources = False
        self._retry_timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._is_accepting = True
        self._loop.add_reader(self._listener.server_socket.fileno(), self._accept_pending)

    def stop(self) -> None:
        """Close the listener.  The kernel resets the connections that wait in the backlog."""
        self._pause()
        self._is_waiting_for_slot = False
        self._listener.close()

    def resume(self) -> None:
        """Try again after a connection closed, a limit changed or a local connection began."""
        if self._is_waiting_for_slot:
            self._resume_accepting()

    def _accept_pending(self) -> None:
        for _ in range(ACCEPTS_PER_WAKEUP):
            if not self._services.local_connections.has_expected and self._pause_if_over_quota():
                return
            if not self._accept_one():
                return

    def _pause_if_over_quota(self) -> bool:
        """Pause if no connection may be accepted now; return whether it did.

        The acceptor resumes when a slot is free or the throttle time is over.
        """
        limits = self._services.connection_quotas
        if not limits.has_slot(self._listener_name):
            self._pause(until_slot_free=True)
            return True
        delay_s = limits.throttle_delay_s(self._listener_name)
        if delay_s:
            self._pause(retry_s=delay_s)
        return delay_s > 0

    def _accept_one(self) -> bool:
        """Accept one connection; return whether to try the next."""
        try:
            accepted, address = self._listener.server_socket.accept()
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            if error.errno not in _OUT_OF_RESOURCES:
                log.debug(
                    "Failed to accept connection on listener %s: %s", self._listener_name, error
                )
                return True
            if not self._is_out_of_resources:
                self._is_out_of_resources = True
                log.warning(
                    "Pausing accepts on listener %s: %s", self._listener_name, error.strerror
                )
            self._pause(until_slot_free=True, retry_s=ACCEPT_RETRY_S)
            return False
        self._is_out_of_resources = False
        self._assign_to_processor(accepted, normalize_address(address[0]), address[1])
        return True

    def _assign_to_processor(self, accepted_socket: socket.socket, host: str, port: int) -> None:
        limits = self._services.connection_quotas
        is_local = self._services.local_connections.claim(accepted_socket)
        if not is_local and not (
            limits.has_slot(self._listener_name) and limits.try_acquire(self._listener_name, host)
        ):
            self._services.failure_log.warn(
                "Rejected connection from %s, too many connections", host
            )
            accepted_socket.close()
            return
        try:
            self._configure_socket(accepted_socket)
            local = accepted_socket.getsockname()
        except OSError as error:
            log.debug("Closing socket for %s because of error: %s", host, error)
            accepted_socket.close()
            if not is_local:
                limits.release(host)
            return
        index = self._services.next_connection_index()
        connection_id = f"{normalize_address(local[0])}:{local[1]}-{host}:{port}-{index}"
        context = RequestContext(
            connection_id, host, self._listener_name, self._is_control_plane, is_local
        )
        next(self._processors).accept(accepted_socket, context)
        if limits.excess:
            self._services.close_excess_connections()

    def _configure_socket(self, accepted_socket: socket.socket) -> None:
        accepted_socket.setblocking(False)
        accepted_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        size = self._services.send_buffer_bytes
        if size != USE_DEFAULT_BUFFER_SIZE:
            accepted_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)

    def _pause(self, *, until_slot_free: bool = False, retry_s: float | None = None) -> None:
        if self._is_accepting:
            self._is_accepting = False
            self._loop.remove_reader(self._listener.server_socket.fileno())
        if self._retry_timer is not None:
            self._retry_timer.cancel()
            self._retry_timer = None
        self._is_waiting_for_slot = until_slot_free
        if retry_s is not None:
            self._retry_timer = self._loop.call_later(retry_s, self._resume_accepting)

    def _resume_accepting(self) -> None:
        self._pause()
        self.start()
