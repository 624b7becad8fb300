"""How kazoo waits, connects and calls back: without threads for calling back, and quickly.

Kazoo lets its users bring their own; what is done here is done on its one remaining thread, or by
whoever sends a request.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

READ_AHEAD_BYTES = 65_536


class Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """How kazoo waits, connects and calls back.  No thread is started for calling back."""

    def __init__(self, notify: Callable[[Any, Any], None], tls: ssl.SSLContext | None) -> None:
        """``notify`` is given a watcher and what has happened."""
        super().__init__()
        self.last_failure: OSError | None = None
        self._notify = notify
        self._tls = tls
        self._connection: Connection | None = None

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def create_socket_pair(self) -> tuple[PipeEnd, PipeEnd]:
        # Kazoo writes a byte for every request.  A socket has room for fewer than 300 of them, and
        # the loop would wait for kazoo's thread, perhaps for ever; a pipe has room for 65,536.
        reading, writing = os.pipe()
        return PipeEnd(reading), PipeEnd(writing)

    def dispatch_callback(self, callback: Any) -> None:
        (event,) = callback.args
        self._notify(callback.func, event)

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> Connection:
        try:
            connection = socket.create_connection(address, timeout)
            self._connection = Connection(self._secured(connection, hostname))
        except OSError as failure:
            self.last_failure = failure
            raise
        return self._connection

    def _secured(self, connection: socket.socket, hostname: str) -> socket.socket:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is None:
                return connection
            return self._tls.wrap_socket(connection, server_hostname=hostname)
        except OSError:
            connection.close()
            raise

    def disconnect(self) -> None:
        """Kazoo's thread, which may be waiting for an answer, finds the connection closed."""
        if self._connection is None:
            return
        try:
            self._connection.shutdown()
        except OSError as failure:
            self.last_failure = failure  # it was closed already

    def select(
        self,
        readable: Sequence[Any],
        writable: Sequence[Any],
        _exceptional: Sequence[Any],
        timeout: float | None = None,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        # Kazoo's own makes a selector each time, several times for every request; select() knows no
        # descriptor above 1023.
        ahead = [each for each in readable if isinstance(each, Connection) and each.pending()]
        poll = select.poll()
        for each in readable:
            poll.register(each, select.POLLIN)
        for each in writable:
            poll.register(each, select.POLLOUT)
        wait_ms = 0 if ahead else None if timeout is None else timeout * 1000
        ready = {number for number, _ in poll.poll(wait_ms)}
        return (
            [each for each in readable if each in ahead or each.fileno() in ready],
            [each for each in writable if each.fileno() in ready],
            [],
        )


class PipeEnd:
    """As much of a socket as kazoo uses."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def send(self, sent: bytes) -> int:
        return os.write(self._descriptor, sent)

    def recv(self, size_bytes: int) -> bytes:
        return os.read(self._descriptor, size_bytes)

    def close(self) -> None:
        os.close(self._descriptor)


class Connection:
    """As much of a socket as kazoo uses, reading ahead.

    Kazoo reads every answer in two steps and waits before each.  What TLS has read ahead it asks
    for with ``pending``, but not before it waits for the next answer: ``Handler.select`` does.
    """

    def __init__(self, connection: socket.socket | ssl.SSLSocket) -> None:
        self._socket = connection
        self._ahead = b""
        self._position = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def pending(self) -> int:
        below = self._socket.pending() if isinstance(self._socket, ssl.SSLSocket) else 0
        return len(self._ahead) - self._position + below

    def recv(self, size_bytes: int) -> bytes:
        if self._position == len(self._ahead):
            self._ahead, self._position = self._socket.recv(READ_AHEAD_BYTES), 0
        start = self._position
        self._position = min(start + size_bytes, len(self._ahead))
        return self._ahead[start : self._position]

    def send(self, sent: bytes | memoryview) -> int:
        return self._socket.send(sent)

    def setblocking(self, is_blocking: bool) -> None:
        self._socket.setblocking(is_blocking)

    def shutdown(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()
