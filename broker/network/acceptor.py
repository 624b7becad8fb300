"""Accepts the connections of one listener and hands them to its processors in turn.

A few at a time, so that a crowd at the door does not stop those who are in.  Without room, or
faster than allowed, nothing is accepted: who comes waits in the backlog.  Without descriptors too,
until one is closed or a moment has passed; asking again at once would only burn the processor.

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

from odradek.broker.call import Peer
from odradek.broker.network.connection_limits import ConnectionLimits, plain_host
from odradek.broker.network.failure_log import FailureLog
from odradek.broker.network.listener import AS_THE_SYSTEM_HAS_IT, Listener
from odradek.broker.network.own_connections import OwnConnections

log = logging.getLogger(__name__)

ACCEPTED_PER_TURN = 16
RETRY_S = 0.5

_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Adopter(Protocol):
    """The part of a processor that accepting needs."""

    def adopt(self, accepted: socket.socket, peer: Peer) -> None: ...


@dataclass(frozen=True, slots=True)
class Reception:
    """What the acceptors of all listeners share."""

    limits: ConnectionLimits
    own: OwnConnections
    failures: FailureLog
    send_buffer_bytes: int
    #: A number for each connection.
    next_index: Callable[[], int]
    #: Called when a privileged connection came in beyond the limit.
    make_room: Callable[[], None]


class Acceptor:
    """One listener's door."""

    def __init__(
        self,
        listener: Listener,
        processors: Sequence[Adopter],
        reception: Reception,
        *,
        is_control_plane: bool,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._listener = listener
        self._name = listener.endpoint.listener
        self._processors = cycle(processors)
        self._reception = reception
        self._is_control_plane = is_control_plane
        self._loop = loop
        self._is_accepting = False
        self._waits_for_room = False
        self._is_out_of_resources = False
        self._retry: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._is_accepting = True
        self._loop.add_reader(self._listener.listening.fileno(), self._accept_some)

    def stop(self) -> None:
        """Close the door; who waits in the backlog is refused."""
        self._pause()
        self._waits_for_room = False
        self._listener.close()

    def resume(self) -> None:
        """A connection was closed, the limits were changed, or one of our own is on its way."""
        if self._waits_for_room:
            self._go_on()

    def _accept_some(self) -> None:
        for _ in range(ACCEPTED_PER_TURN):
            if not self._reception.own.are_expected and self._must_wait():
                return
            if not self._accept_one():
                return

    def _must_wait(self) -> bool:
        """Whether none may come in now; it is seen to that they can later."""
        limits = self._reception.limits
        if not limits.has_room(self._name):
            self._pause(for_room=True)
            return True
        delay_s = limits.delay_s(self._name)
        if delay_s:
            self._pause(retry_s=delay_s)
        return delay_s > 0

    def _accept_one(self) -> bool:
        """Whether to ask for another."""
        try:
            accepted, address = self._listener.listening.accept()
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as failure:
            if failure.errno not in _OUT_OF_RESOURCES:
                log.debug("A connection to %s was gone: %s", self._name, failure)
                return True
            if not self._is_out_of_resources:
                self._is_out_of_resources = True
                log.warning("%s accepts no connection for now: %s", self._name, failure.strerror)
            self._pause(for_room=True, retry_s=RETRY_S)
            return False
        self._is_out_of_resources = False
        self._welcome(accepted, plain_host(address[0]), address[1])
        return True

    def _welcome(self, accepted: socket.socket, host: str, port: int) -> None:
        limits = self._reception.limits
        is_own = self._reception.own.takes(accepted)
        if not is_own and not (limits.has_room(self._name) and limits.admit(self._name, host)):
            self._reception.failures.warn("%s has too many connections: one is closed", host)
            accepted.close()
            return
        try:
            self._prepare(accepted)
            local = accepted.getsockname()
        except OSError as failure:
            log.debug("A connection from %s was gone: %s", host, failure)
            accepted.close()
            if not is_own:
                limits.release(host)
            return
        index = self._reception.next_index()
        connection_id = f"{plain_host(local[0])}:{local[1]}-{host}:{port}-{index}"
        peer = Peer(connection_id, host, self._name, self._is_control_plane, is_own)
        next(self._processors).adopt(accepted, peer)
        if limits.excess:
            self._reception.make_room()

    def _prepare(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        size = self._reception.send_buffer_bytes
        if size != AS_THE_SYSTEM_HAS_IT:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)

    def _pause(self, *, for_room: bool = False, retry_s: float | None = None) -> None:
        if self._is_accepting:
            self._is_accepting = False
            self._loop.remove_reader(self._listener.listening.fileno())
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._waits_for_room = for_room
        if retry_s is not None:
            self._retry = self._loop.call_later(retry_s, self._go_on)

    def _go_on(self) -> None:
        self._pause()
        self.begin()
