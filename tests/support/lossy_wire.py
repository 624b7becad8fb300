"""A wire between clients and a broker that loses requests, or answers, as a test wants it.

    with LossyWire() as wire, wire.broker(tmp_path / "logs").start():
        wire.loses = lambda way, key: way is Way.ANSWER and key is ApiKey.PRODUCE
        Producer({"bootstrap.servers": wire.address})

The broker has a listener of its own for the wire, and so is otherwise left alone by its faults.
With what is lost its connection ends, as with a network that breaks.  ``loses`` is asked of every
frame when it has arrived: an answer that is lost is one to something that the broker has done.

Owner: the test's thread; two threads for each connection, and one that accepts.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Self, TypeVar

from odradek.protocol.api_keys import ApiKey
from tests.support.broker_process import BrokerProcess
from tests.support.free_ports import free_port

LOOPBACK = "127.0.0.1"
JOIN_TIMEOUT_S = 20
BACKLOG = 64


class Way(Enum):
    REQUEST = "request"
    ANSWER = "answer"


Loses = Callable[[Way, ApiKey], bool]
L = TypeVar("L", bound=Loses)


def nothing(way: Way, key: ApiKey) -> bool:
    return False


class LossyWire:
    """``loses`` may be changed at any time; while ``is_down``, nobody gets through."""

    def __init__(self) -> None:
        self.loses: Loses = nothing
        self.is_down = False
        #: How long an answer is on its way, so that more requests are made meanwhile.
        self.delay_s = 0.0
        #: Requests of a connection that were waiting for their answers.
        self.in_flight_max = 0
        self._target = (LOOPBACK, free_port())
        self._listening = socket.create_server((LOOPBACK, 0), backlog=BACKLOG)
        self._strands: list[_Strand] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    @property
    def address(self) -> str:
        host, port = self._listening.getsockname()
        return f"{host}:{port}"

    def broker(self, data_dir: Path, *overrides: str) -> BrokerProcess:
        """At the other end; it sends the clients on this wire to this wire."""
        own, (host, port) = free_port(), self._target
        return BrokerProcess(
            data_dir,
            f"listeners=PLAINTEXT://{host}:{own},WIRE://{host}:{port}",
            f"advertised.listeners=PLAINTEXT://{host}:{own},WIRE://{self.address}",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,WIRE:PLAINTEXT",
            *overrides,
            port=own,
        )

    @contextmanager
    def losing(self, loses: L) -> Iterator[L]:
        """For a while; then it is sound again."""
        self.loses = loses
        try:
            yield loses
        finally:
            self.loses, self.delay_s = nothing, 0.0

    def cut(self) -> None:
        """All connections that there are."""
        for strand in self._strands:
            strand.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = self._connected()
            if server is None:
                client.close()
            else:
                self._strands.append(_Strand(self, client, server))

    def _connected(self) -> socket.socket | None:
        if self.is_down:
            return None
        with suppress(OSError):
            return socket.create_connection(self._target)
        return None

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, *failure: object) -> None:
        # To close it would not wake the thread that accepts.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join(JOIN_TIMEOUT_S)
        self._listening.close()
        for strand in self._strands:
            strand.end()


class _Strand:
    """One client's connection and the one that it is passed on to."""

    def __init__(self, wire: LossyWire, client: socket.socket, server: socket.socket) -> None:
        self._wire = wire
        self._client, self._server = client, server
        #: Of the requests that are to be answered.
        self._keys: deque[ApiKey] = deque()
        self._threads = [
            threading.Thread(target=pump, daemon=True) for pump in (self._requests, self._answers)
        ]
        for thread in self._threads:
            thread.start()

    def _requests(self) -> None:
        while frame := _frame(self._client):
            key = ApiKey(int.from_bytes(frame[4:6]))
            if self._wire.loses(Way.REQUEST, key):
                break
            self._keys.append(key)
            self._wire.in_flight_max = max(self._wire.in_flight_max, len(self._keys))
            if not _passed(self._server, frame):
                break
        self.cut()

    def _answers(self) -> None:
        while frame := _frame(self._server):
            time.sleep(self._wire.delay_s)
            if self._wire.loses(Way.ANSWER, self._keys.popleft()):
                break
            if not _passed(self._client, frame):
                break
        self.cut()

    def cut(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        self.cut()
        for thread in self._threads:
            thread.join(JOIN_TIMEOUT_S)
        self._client.close()
        self._server.close()


def _frame(source: socket.socket) -> bytes:
    """With its size; nothing if there is no more."""
    size = _exactly(source, 4)
    body = _exactly(source, int.from_bytes(size)) if size else b""
    return size + body if body else b""


def _exactly(source: socket.socket, count: int) -> bytes:
    got = bytearray()
    while len(got) < count:
        try:
            piece = source.recv(count - len(got))
        except OSError:
            return b""
        if not piece:
            return b""
        got += piece
    return bytes(got)


def _passed(target: socket.socket, frame: bytes) -> bool:
    try:
        target.sendall(frame)
    except OSError:
        return False
    return True
