"""How kazoo waits, connects and calls back: without threads for calling back, and quickly.

Kazoo lets its users bring their own; what is done here is done on its one remaining thread, or by
whoever sends a request.

Kazoo would make five system calls for every request and two for every answer, and with each of them
leave the interpreter to the loop's thread, which may keep it for milliseconds.  So what is sent is
collected until kazoo has nothing more to send, what comes in is read ahead, and neither is asked
for again while there is some left.
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
#: How long to wait where kazoo waits for nothing else: for the rest of an answer, or to be let in.
#: It would wait as long as the session may last.  A server that has only begun to start may take a
#: connection and never answer, and the session would be over before another is tried.
RESPONSE_TIMEOUT_S = 3.0


class KazooHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """How kazoo waits, connects and calls back.  No thread is started for calling back."""

    def __init__(
        self,
        on_watch_event: Callable[[Any, Any], None],
        tls_context: ssl.SSLContext | None,
        *,
        on_idle: Callable[[], None] = lambda: None,
    ) -> None:
        """``notify`` is given a watcher and what has happened."""
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
        """What kazoo reads from, and what it writes to, to learn that there is a request."""
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
        """Kazoo's thread, which may be waiting for an answer, finds the connection closed."""
        if self._connection is None:
            return
        try:
            self._connection.shutdown()
        except OSError as error:
            self.last_error = error  # it was closed already

    def select(
        self,
        readable: Sequence[WakeupPipe | BufferedConnection],
        writable: Sequence[Any],
        _exceptional: Sequence[Any],
        timeout: float | None = None,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Kazoo writes to connections alone, which can always be done."""
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
    """Those that can be read within so many seconds; what is to be sent is sent meanwhile."""
    # select() knows no descriptor above 1023; kazoo's own handler makes a selector each time.
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
    """Both ends of a pipe, as much as kazoo uses of them: a byte for every request.

    The pipe has a byte in it while there is any, for whoever waits; how many is counted beside it.
    So the loop never waits for kazoo's thread, however many there are.
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
        """There is never anything to send."""

    def send(self, data: bytes) -> int:
        with self._count_lock:
            if self._is_closed:
                raise OSError(errno.EBADF, "kazoo has ended")
            if not self._count:
                os.write(self._write_fd, data)
            self._count += len(data)
        return len(data)

    def recv(self, _size_bytes: int) -> bytes:
        """One at most; none if there is none, without waiting for it."""
        with self._count_lock:
            if not self._count:
                return b""
            self._count -= 1
            return b"\0" if self._count else os.read(self._read_fd, 1)

    def close(self) -> None:
        """Kazoo closes either end."""
        with self._count_lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._read_fd)
                os.close(self._write_fd)


class BufferedConnection:
    """As much of a socket as kazoo uses, reading ahead and sending later.

    Kazoo reads every answer in two steps and waits before each.  What TLS has read ahead it asks
    for with ``pending``, but not before it waits for the next answer: ``Handler.select`` does.
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
        """As much as can be sent without waiting."""
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
