"""Byte stream of a connection, and its implementation by a plain TCP socket.

Kafka: TransportLayer and PlaintextTransportLayer.  TLS will be another implementation, and nothing
else has to change.

Every call does what is possible without blocking, and raises BlockingIOError if that is nothing.

Owner: the loop of the connection's processor.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class PeerDisconnected(Exception):
    """The peer reset the connection, or is unreachable."""


class Transport(Protocol):
    """Calls that never block; an OSError means that the peer has disconnected."""

    descriptor: int
    #: Whether it holds received bytes that the event loop does not report for the descriptor.
    has_bytes_buffered: bool

    @property
    def recv_into(self) -> Callable[[memoryview], int]:
        """Return the number of bytes received; 0 at the end of input."""

    @property
    def send(self) -> Callable[[Buffer], int]: ...

    def send_parts(self, parts: Sequence[Buffer], *, more: bool) -> int:
        """Return the number of bytes sent; ``more`` says that further bytes follow soon."""

    def send_file(self, descriptor: int, *, position: int, length: int) -> int:
        """Return the number of bytes sent; 0 if the file ends before ``position``."""

    def peek(self) -> None:
        """Raise the error that a read would raise, but read nothing."""

    def close(self) -> None: ...


class PlainTransport:
    """A non-blocking TCP socket."""

    # Bound methods of the socket itself save a call for every request.
    __slots__ = ("_socket", "descriptor", "has_bytes_buffered", "recv_into", "send")

    def __init__(self, connected_socket: socket.socket) -> None:
        self._socket = connected_socket
        self.descriptor = connected_socket.fileno()
        self.has_bytes_buffered = False
        self.recv_into: Callable[[memoryview], int] = connected_socket.recv_into
        self.send: Callable[[Buffer], int] = connected_socket.send

    def send_parts(self, parts: Sequence[Buffer], *, more: bool) -> int:
        return self._socket.sendmsg(parts, (), socket.MSG_MORE if more else 0)

    def send_file(self, descriptor: int, *, position: int, length: int) -> int:
        return os.sendfile(self.descriptor, descriptor, position, length)

    def peek(self) -> None:
        self._socket.recv(1, socket.MSG_PEEK)

    def close(self) -> None:
        self._socket.close()
