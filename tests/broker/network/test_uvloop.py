"""The socket server on uvloop: order of responses, and reset connections."""

import asyncio
import socket

import pytest

from odradek.broker.network.socket_server import SocketServer
from odradek.broker.settings.network import NetworkSettings
from tests.support.network_scene import LOOPBACK, Client, port_of, until
from tests.support.scripted_connection import echo, framed

uvloop = pytest.importorskip("uvloop")

both = pytest.mark.parametrize("threads", [1, 2])


async def echo_later(frame):
    response = framed(bytes(frame))
    await asyncio.sleep(0)
    return [response]


def run(scenario, threads):
    """Runs a scenario on uvloop with a server that is stopped afterwards."""

    async def serve():
        server = SocketServer(
            NetworkSettings(listeners=LOOPBACK, num_network_threads=threads),
            lambda frame, context: echo_later(frame) if frame[:1] == b"l" else echo(frame, context),
            start_task=lambda coroutine, name: asyncio.get_running_loop().create_task(
                coroutine, name=name
            ),
            new_loop=uvloop.new_event_loop,
        )
        server.open()
        server.start_accepting()
        try:
            async with asyncio.timeout(30):
                await scenario(server)
        finally:
            await server.stop(timeout_s=5)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


def connect_to(server):
    return socket.create_connection(("127.0.0.1", port_of(server)))


@both
def test_pipelined_requests_are_answered_in_order(threads):
    async def scenario(server):
        client = Client(connect_to(server))
        client.socket.setblocking(False)
        payloads = [b"%c%d" % (kind, number) for number in range(30) for kind in b"sl"]
        await client.send(b"".join(map(framed, payloads)))
        assert [await client.receive() for _ in payloads] == payloads
        client.close()

    run(scenario, threads)


@both
def test_reset_with_unread_bytes_is_detected(threads, monkeypatch):
    monkeypatch.setattr("odradek.broker.network.processor.SWEEP_INTERVAL_S", 0.01)

    async def scenario(server):
        healthy = Client(connect_to(server))
        healthy.socket.setblocking(False)
        for stream in (b"\0", framed(b"s" * 90_000)[:40_000], framed(b"later") * 3, framed(b"s")):
            hostile = Client(connect_to(server))
            hostile.socket.sendall(stream)
            hostile.reset()
        assert await healthy.ask(b"still") == b"still"
        await until(lambda: len(server) == 1)
        healthy.close()

    run(scenario, threads)
