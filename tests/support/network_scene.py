"""A socket server on this loop, and clients of it that know nothing but frames."""

from __future__ import annotations

import asyncio
import socket
import struct
from functools import partial

from odradek.broker.network.socket_server import SocketServer
from odradek.broker.settings.network import NetworkSettings
from odradek.broker.task_registry import TaskRegistry
from tests.support.loops import at_end
from tests.support.scripted_connection import echo, framed

LOOPBACK = "PLAINTEXT://127.0.0.1:0"
LOOK_EVERY_S = 0.001
ABRUPTLY = struct.pack("ii", 1, 0)


async def serving(answerer=echo, *, listeners=LOOPBACK, **settings):
    """A server that accepts, until the test ends."""
    background = TaskRegistry()
    at_end(background.stop)
    server = SocketServer(
        NetworkSettings(listeners=listeners, **settings), answerer, start_task=background.start
    )
    at_end(partial(server.stop, timeout_s=5))
    server.open()
    server.start_accepting()
    return server


def port_of(server, listener="PLAINTEXT"):
    return next(each.port for each in server.endpoints if each.listener == listener)


async def until(condition):
    """Whatever makes it true happens elsewhere on this machine; the test's time limit bounds it."""
    while True:
        if condition():
            return
        await asyncio.sleep(LOOK_EVERY_S)


class Client:
    """A socket that is read and written without asking anybody what it means."""

    def __init__(self, connected):
        self.socket = connected
        self._received = bytearray()
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def connect(cls, server, listener="PLAINTEXT", *, receive_buffer_bytes=None):
        port = port_of(server, listener)
        return await cls.connect_to(port, receive_buffer_bytes=receive_buffer_bytes)

    @classmethod
    async def connect_to(cls, port, *, receive_buffer_bytes=None):
        connecting = socket.socket()
        connecting.setblocking(False)
        if receive_buffer_bytes:
            connecting.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        client = cls(connecting)
        at_end(client.close_at_end)
        await client._loop.sock_connect(connecting, ("127.0.0.1", port))
        return client

    async def send(self, stream):
        await self._loop.sock_sendall(self.socket, stream)

    async def ask(self, payload):
        await self.send(framed(payload))
        return await self.receive()

    async def receive(self):
        """The payload of the next frame."""
        (size,) = struct.unpack(">i", await self._exactly(4))
        return await self._exactly(size)

    async def is_ended(self):
        """Waits for the end; False if anything else comes first."""
        try:
            return not await self._loop.sock_recv(self.socket, 1)
        except ConnectionError:
            return True

    def end_input(self):
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABRUPTLY)
        self.socket.close()

    def close(self):
        self.socket.close()

    async def close_at_end(self):
        self.close()

    async def _exactly(self, size):
        while len(self._received) < size:
            more = await self._loop.sock_recv(self.socket, 1 << 16)
            if not more:
                raise EOFError(bytes(self._received))
            self._received += more
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken


class Held:
    """Answers that are given when the test says so: ``asked`` are the futures, in order."""

    def __init__(self):
        self.asked = []

    def __call__(self, frame, _):
        self.asked.append(asyncio.get_running_loop().create_future())
        return self.asked[-1]

    async def wait_for(self, count):
        await until(lambda: len(self.asked) >= count)

    def answer(self, number=-1):
        if not self.asked[number].done():
            self.asked[number].set_result([framed(b"held")])
