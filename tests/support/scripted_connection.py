"""A connection without a network: what comes, and what the kernel takes, stands in a script."""

from __future__ import annotations

import os
import struct
from collections import deque

from odradek.broker.network.connection import Connection
from odradek.broker.network.connection_services import ConnectionServices
from odradek.broker.network.failure_log import FailureLog
from odradek.broker.network.memory_pool import MemoryPool
from odradek.broker.network.receive_buffers import SHARED_BYTES, ReceiveBuffers
from odradek.broker.request import RequestContext

END = b""
OTHERS = b"\xee" * SHARED_BYTES


def framed(payload):
    return struct.pack(">i", len(payload)) + payload


class ScriptedTransport:
    """``incoming`` holds chunks, END, and exceptions; ``takes`` how much each write is taken of."""

    descriptor = 7
    has_bytes_buffered = False

    def __init__(self, incoming=(), takes=()):
        self.incoming = deque(incoming)
        self.takes = deque(takes)
        self.sent = bytearray()
        self.is_closed = False

    def recv_into(self, view):
        chunk = self._next_chunk()
        if chunk == END:
            return 0
        size = min(len(view), len(chunk))
        view[:size] = chunk[:size]
        if size == len(chunk):
            self.incoming.popleft()
        else:
            self.incoming[0] = chunk[size:]
        return size

    def peek(self):
        self._next_chunk()

    def send(self, buffer):
        taken = bytes(buffer)[: self._takes()]
        self.sent += taken
        return len(taken)

    def send_parts(self, parts, *, more):
        return self.send(b"".join(parts))

    def send_file(self, descriptor, *, position, length):
        taken = os.pread(descriptor, min(length, self._takes()), position)
        self.sent += taken
        return len(taken)

    def close(self):
        self.is_closed = True

    def _next_chunk(self):
        if not self.incoming:
            raise BlockingIOError
        if isinstance(self.incoming[0], Exception):
            raise self.incoming.popleft()
        return self.incoming[0]

    def _takes(self):
        if not self.takes:
            return 1 << 30
        if not (most := self.takes.popleft()):
            raise BlockingIOError
        return most


class ScriptedLoop:
    """Calls whoever watches one descriptor, for as long as there is something to see."""

    def __init__(self, transport, after_each):
        self._transport = transport
        self._after_each = after_each
        self.reader = self.writer = None
        self.ready = deque()

    def add_reader(self, _, callback, *arguments):
        self.reader = (callback, arguments)

    def remove_reader(self, _):
        self.reader = None

    def add_writer(self, _, callback, *arguments):
        self.writer = (callback, arguments)

    def remove_writer(self, _):
        self.writer = None

    def call_soon(self, callback, *arguments):
        self.ready.append((callback, arguments))

    def run(self):
        while self._turn():
            assert not (self._transport.is_closed and (self.reader or self.writer))

    def _turn(self):
        if self.ready:
            callback, arguments = self.ready.popleft()
        elif self.writer:
            callback, arguments = self.writer
        elif self.reader and (self._transport.incoming or self._transport.has_bytes_buffered):
            callback, arguments = self.reader
        else:
            return False
        callback(*arguments)
        self._after_each()
        return True


class ScriptedConnection:
    """``waiting`` holds what was waited for, and how to deliver it; ``asked`` every frame."""

    def __init__(
        self, ask, incoming=(), *, takes=(), frame_bytes_max=1 << 20, bytes_max=-1, requests_max=-1
    ):
        self.transport = ScriptedTransport(incoming, takes)
        self.loop = ScriptedLoop(self.transport, self._others_read)
        self.now = 100.0
        self.asked = []
        self.waiting = deque()
        self.ended = []
        self.settled = []
        self.buffers = ReceiveBuffers()
        self.memory = MemoryPool(bytes_max, self.loop.call_soon, requests_max=requests_max)
        around = ConnectionServices(
            loop=self.loop,
            now=lambda: self.now,
            submit=self._ask,
            watch=lambda answer, _, deliver: self.waiting.append((answer, deliver)),
            on_closed=self.ended.append,
            on_last_request_done=self.settled.append,
            frame_bytes_max=frame_bytes_max,
            receive_buffers=self.buffers,
            memory_pool=self.memory,
            failure_log=FailureLog(lambda: self.now, lambda seconds, tell: None),
        )
        self._answerer = ask
        self.connection = Connection(
            self.transport, RequestContext("a-b-0", "host", "PLAINTEXT"), around
        )
        self.connection.start()

    @property
    def sent(self):
        return bytes(self.transport.sent)

    def comes(self, *chunks):
        self.transport.incoming.extend(chunks)
        self.run()

    def run(self):
        self.loop.run()

    def deliver(self, outcome):
        _, deliver = self.waiting.popleft()
        deliver(outcome)
        self.run()

    def _others_read(self):
        """As other connections would, into the buffer that they share with this one."""
        self.buffers.shared[:] = OTHERS

    def _ask(self, frame, peer):
        self.asked.append(bytes(frame))
        return self._answerer(frame, peer)


def echo(frame, _):
    return [framed(bytes(frame))]


def blocked(*_, **__):
    """A write that the kernel does not take."""
    raise BlockingIOError


def broken_pipe(*_, **__):
    """A write to a peer that is gone."""
    raise BrokenPipeError
