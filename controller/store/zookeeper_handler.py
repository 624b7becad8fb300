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
SEND_LATER_BYTES_MAX = 65_536
#: How long to wait where kazoo waits for nothing else: for the rest of an answer, or to be let in.
#: It would wait as long as the session may last.  A server that has only begun to start may take a
#: connection and never answer, and the session would be over before another is tried.
ANSWER_S = 3.0


class Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """How kazoo waits, connects and calls back.  No thread is started for calling back."""

    def __init__(
        self,
        notify: Callable[[Any, Any], None],
        tls: ssl.SSLContext | None,
        *,
        before_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """``notify`` is given a watcher and what has happened."""
        super().__init__()
        self.last_failure: OSError | None = None
        self._notify = notify
        self._tls = tls
        self._before_waiting = before_waiting
        self._connection: Connection | None = None

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def create_socket_pair(self) -> tuple[Bell, Bell]:
        """What kazoo reads from, and what it writes to, to learn that there is a request."""
        bell = Bell()
        return bell, bell

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
        readable: Sequence[Bell | Connection],
        writable: Sequence[Any],
        _exceptional: Sequence[Any],
        timeout: float | None = None,
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Kazoo writes to connections alone, which can always be done."""
        if writable:
            return [], [*writable], []
        ready = [each for each in readable if each.pending()]
        if not any(isinstance(each, Bell) for each in ready):
            for each in readable:
                each.flush()
        if not ready:
            self._before_waiting()
            if timeout is not None and len(readable) == 1:
                timeout = min(timeout, ANSWER_S)
            ready = _polled(readable, timeout)
        return ready, [], []


def _polled(
    readable: Sequence[Bell | Connection], timeout: float | None
) -> list[Bell | Connection]:
    """Those that can be read within so many seconds; what is to be sent is sent meanwhile."""
    # select() knows no descriptor above 1023; kazoo's own handler makes a selector each time.
    while True:
        poll = select.poll()
        for each in readable:
            poll.register(each, select.POLLIN | (select.POLLOUT if each.has_unsent else 0))
        events = dict(poll.poll(None if timeout is None else timeout * 1000))
        ready = [each for each in readable if events.get(each.fileno(), 0) & ~select.POLLOUT]
        if ready or not events:
            return ready
        for each in readable:
            each.flush()


class Bell:
    """Both ends of a pipe, as much as kazoo uses of them: a byte for every request.

    The pipe has a byte in it while there is any, for whoever waits; how many is counted beside it.
    So the loop never waits for kazoo's thread, however many there are.
    """

    has_unsent = False

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self._counting = threading.Lock()
        self._count = 0
        self._is_closed = False

    def fileno(self) -> int:
        return self._reading

    def pending(self) -> int:
        return self._count

    def flush(self) -> None:
        """There is never anything to send."""

    def send(self, sent: bytes) -> int:
        with self._counting:
            if self._is_closed:
                raise OSError(errno.EBADF, "kazoo has ended")
            if not self._count:
                os.write(self._writing, sent)
            self._count += len(sent)
        return len(sent)

    def recv(self, _size_bytes: int) -> bytes:
        """One at most; none if there is none, without waiting for it."""
        with self._counting:
            if not self._count:
                return b""
            self._count -= 1
            return b"\0" if self._count else os.read(self._reading, 1)

    def close(self) -> None:
        """Kazoo closes either end."""
        with self._counting:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._reading)
                os.close(self._writing)


class Connection:
    """As much of a socket as kazoo uses, reading ahead and sending later.

    Kazoo reads every answer in two steps and waits before each.  What TLS has read ahead it asks
    for with ``pending``, but not before it waits for the next answer: ``Handler.select`` does.
    """

    def __init__(self, connection: socket.socket | ssl.SSLSocket) -> None:
        self._socket = connection
        self._ahead = b""
        self._position = 0
        self._unsent = bytearray()

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

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def send(self, sent: bytes | memoryview) -> int:
        self._unsent += sent
        if len(self._unsent) > SEND_LATER_BYTES_MAX:
            self.flush()
        return len(sent)

    def flush(self) -> None:
        """As much as can be sent without waiting."""
        while self._unsent:
            try:
                count = self._socket.send(bytes(self._unsent))
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            del self._unsent[:count]

    def setblocking(self, is_blocking: bool) -> None:
        self._socket.setblocking(is_blocking)

    def shutdown(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()
