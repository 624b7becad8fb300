"""What a connection needs of a stream of bytes, and the plain TCP socket that has it.

This is where TLS will go: a stream that encrypts takes the socket's place, and nothing else has to
change.

Every call does at once what can be done, and raises BlockingIOError if that is nothing.

Owner: the loop of the connection's processor.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class PeerDisconnected(Exception):
    """The peer reset the connection, or cannot be reached any more."""


class Transport(Protocol):
    """Calls that never wait; OSError means that the peer is gone."""

    descriptor: int
    #: Whether bytes are here already of which the descriptor says nothing any more.
    has_bytes_buffered: bool

    @property
    def recv_into(self) -> Callable[[memoryview], int]:
        """How many bytes came; 0 at the end of the input."""

    @property
    def send(self) -> Callable[[Buffer], int]: ...

    def send_parts(self, parts: Sequence[Buffer], *, more: bool) -> int:
        """How many bytes went out; ``more`` is about to follow."""

    def send_file(self, descriptor: int, *, position: int, length: int) -> int:
        """How many bytes went out; 0 if the file has none there."""

    def peek(self) -> None:
        """Fail as reading would, but read nothing."""

    def close(self) -> None: ...


class PlainTransport:
    """A TCP socket, which must not block."""

    # Bound methods of the socket itself: one call less for every request.
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
