"""Kazoo's I/O handler: polls, connects and dispatches callbacks with few system calls.

Kazoo accepts a custom handler.  This one starts no threads for callbacks: its code runs on kazoo's
one remaining thread, or on the thread that sends a request.

By default kazoo makes five system calls for every request and two for every response.  Each of them
releases the interpreter lock to the loop's thread, which may hold it for milliseconds.  Therefore
this handler buffers requests until kazoo has nothing more to send, reads responses ahead, and does
not poll again while the read buffer holds data.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

READ_AHEAD_BYTES = 65_536
SEND_BUFFER_BYTES_MAX = 65_536
#: The timeout where kazoo waits only for the server: for the rest of a response, or for the
#: connection to be accepted.  By default kazoo waits for the session timeout.  A server that is
#: starting may accept a connection and never respond; the session would expire before kazoo tries
#: another server.
RESPONSE_TIMEOUT_S = 3.0


class KazooHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Kazoo's handler without threads for callbacks."""

    def __init__(
        self,
        on_watch_event: Callable[[Any, Any], None],
        tls_context: ssl.SSLContext | None,
        *,
        on_idle: Callable[[], None] = lambda: None,
    ) -> None:
        """``on_watch_event`` gets a watcher and its event."""
        super().__init__()
        self.last_error: OSError | None = None
        self._on_watch_event = on_watch_event
        self._tls_context = tls_context
        self._on_idle = on_idle
        self._connection: BufferedConnection | None = None

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def create_socket_pair(self) -> tuple[WakeupPipe, WakeupPipe]:
        """Return the ends of the pipe through which kazoo learns of a new request."""
        pipe = WakeupPipe()
        return pipe, pipe

    def dispatch_callback(self, callback: Any) -> None:
        (event,) = callback.args
        self._on_watch_event(callback.func, event)

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> BufferedConnection:
        try:
            connection = socket.create_connection(address, timeout)
            self._connection = BufferedConnection(self._configure_socket(connection, hostname))
        except OSError as error:
            self.last_error = error
            raise
        return self._connection

    def _configure_socket(self, connection: socket.socket, hostname: str) -> socket.socket:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls_context is None:
                return connection
            return self._tls_context.wrap_socket(connection, server_hostname=hostname)
        except OSError:
            connection.close()
            raise

    def disconnect(self) -> None:
        """Shut the connection down; kazoo's thread, if it waits for a response, then wakes up."""
        if self._connection is None:
            return
        try:
            self._connection.shutdown()
        except OSError as error:
            self.last_error = error  # the connection was closed already

    def select(
        self,
        readable: Sequence[WakeupPipe | BufferedConnection],
        writable: Sequence[Any],
        _exceptional: Sequence[Any],
        timeout: float | None = None,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Connections are always writable, since writes are buffered."""
        if writable:
            return [], [*writable], []
        ready = [channel for channel in readable if channel.pending()]
        if not any(isinstance(channel, WakeupPipe) for channel in ready):
            for channel in readable:
                channel.flush()
        if not ready:
            self._on_idle()
            if timeout is not None and len(readable) == 1:
                timeout = min(timeout, RESPONSE_TIMEOUT_S)
            ready = _poll_readable(readable, timeout)
        return ready, [], []


def _poll_readable(
    readable: Sequence[WakeupPipe | BufferedConnection], timeout: float | None
) -> list[WakeupPipe | BufferedConnection]:
    """Return the channels that become readable in time; send buffered data while waiting."""
    # select() is limited to descriptors below 1024; kazoo's handler creates a selector each time.
    while True:
        poll = select.poll()
        for channel in readable:
            poll.register(channel, select.POLLIN | (select.POLLOUT if channel.has_unsent else 0))
        events = dict(poll.poll(None if timeout is None else timeout * 1000))
        ready = [
            channel for channel in readable if events.get(channel.fileno(), 0) & ~select.POLLOUT
        ]
        if ready or not events:
            return ready
        for channel in readable:
            channel.flush()


class WakeupPipe:
    """Both ends of a pipe, as far as kazoo uses them: one byte for every request.

    The pipe itself holds a single byte while any are pending, to wake a waiting poll; the number is
    counted next to it.  The pipe never fills up, so the loop never blocks on kazoo's thread.
    """

    has_unsent = False

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()
        self._count_lock = threading.Lock()
        self._count = 0
        self._is_closed = False

    def fileno(self) -> int:
        return self._read_fd

    def pending(self) -> int:
        return self._count

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def send(self, data: bytes) -> int:
        with self._count_lock:
            if self._is_closed:
                raise OSError(errno.EBADF, "the kazoo client is closed")
            if not self._count:
                os.write(self._write_fd, data)
            self._count += len(data)
        return len(data)

    def recv(self, _size_bytes: int) -> bytes:
        """Return at most one byte; return none, without blocking, if none is pending."""
        with self._count_lock:
            if not self._count:
                return b""
            self._count -= 1
            return b"\0" if self._count else os.read(self._read_fd, 1)

    def close(self) -> None:
        """Close both ends; kazoo closes either or both."""
        with self._count_lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._read_fd)
                os.close(self._write_fd)


class BufferedConnection:
    """The part of a socket that kazoo uses, with read-ahead and buffered writes.

    Kazoo reads every response in two steps and polls before each step.  It checks ``pending`` for
    data that TLS has read ahead, but not before it polls for the next response;
    ``KazooHandler.select`` does that.
    """

    def __init__(self, connection: socket.socket | ssl.SSLSocket) -> None:
        self._socket = connection
        self._read_buffer = b""
        self._read_position = 0
        self._send_buffer = bytearray()

    def fileno(self) -> int:
        return self._socket.fileno()

    def pending(self) -> int:
        tls_pending = self._socket.pending() if isinstance(self._socket, ssl.SSLSocket) else 0
        return len(self._read_buffer) - self._read_position + tls_pending

    def recv(self, size_bytes: int) -> bytes:
        if self._read_position == len(self._read_buffer):
            self._read_buffer, self._read_position = self._socket.recv(READ_AHEAD_BYTES), 0
        start = self._read_position
        self._read_position = min(start + size_bytes, len(self._read_buffer))
        return self._read_buffer[start : self._read_position]

    @property
    def has_unsent(self) -> bool:
        return bool(self._send_buffer)

    def send(self, data: bytes | memoryview) -> int:
        self._send_buffer += data
        if len(self._send_buffer) > SEND_BUFFER_BYTES_MAX:
            self.flush()
        return len(data)

    def flush(self) -> None:
        """Send as much as possible without blocking."""
        while self._send_buffer:
            try:
                count = self._socket.send(bytes(self._send_buffer))
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            del self._send_buffer[:count]

    def setblocking(self, is_blocking: bool) -> None:
        self._socket.setblocking(is_blocking)

    def shutdown(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()
