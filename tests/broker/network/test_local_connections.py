"""The broker's own controller connects regardless of the limits on connections."""

import asyncio
import socket

import pytest

from odradek.broker.network.local_connections import LocalConnections
from tests.support.loops import at_end
from tests.support.network_scene import Client, port_of, serving, until
from tests.support.scripted_connection import framed

REJECTING_LIMITS = pytest.mark.parametrize(
    "limits",
    [
        {"max_connections": 0},
        {"max_connections_per_ip_overrides": "127.0.0.1:0"},
        {"max_connection_creation_rate": 1},
    ],
    ids=["in all", "from one address", "in a second"],
)


async def connect_locally(server):
    client = Client(await server.local_connections.connect("127.0.0.1", port_of(server)))
    at_end(client.close_at_end)
    return client


@REJECTING_LIMITS
@pytest.mark.parametrize("threads", [1, 2])
async def test_local_connection_is_exempt_from_limits_and_not_counted(limits, threads):
    server = await serving(num_network_threads=threads, **limits)
    for _ in range(2):
        client = await connect_locally(server)
        assert await asyncio.wait_for(client.ask(b"hello"), 1) == b"hello"
        assert len(server) == 0
        client.socket.close()


async def test_local_connection_passes_connections_that_wait_for_a_slot():
    server = await serving(max_connections=1)
    first, second = await Client.connect(server), await Client.connect(server)
    assert await first.ask(b"first") == b"first"
    local_client = await connect_locally(server)
    assert await local_client.ask(b"own") == b"own"
    assert await second.is_ended()
    third = await Client.connect(server)
    await third.send(framed(b"third"))
    assert await first.ask(b"again") == b"again"
    assert len(server) == 1
    first.socket.close()
    assert await third.receive() == b"third"


async def test_other_connections_are_not_taken_for_the_local_one():
    server = await serving(max_connections_per_ip_overrides="127.0.0.1:0")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        server.local_connections._expect(bound.getsockname()[1])
        another = await Client.connect(server)
        assert await another.is_ended()
    assert server.local_connections.has_expected


async def test_missing_local_connection_is_not_expected_after_the_timeout(monkeypatch):
    monkeypatch.setattr("odradek.broker.network.local_connections.ARRIVAL_TIMEOUT_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as other_server:
        local_connections = LocalConnections(lambda: None)
        with await local_connections.connect(*other_server.getsockname()):
            await until(lambda: not local_connections.has_expected)


async def test_local_connection_without_listener_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
    with pytest.raises(ConnectionRefusedError):
        await LocalConnections(lambda: None).connect(*address)
