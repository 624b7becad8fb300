"""The broker's own controller comes in, whatever the limits on connections."""

import asyncio
import socket

import pytest

from odradek.broker.network.own_connections import OwnConnections
from tests.support.loops import at_end
from tests.support.network_scene import Client, port_of, serving, until
from tests.support.scripted_connection import framed

NOBODY_ELSE = pytest.mark.parametrize(
    "limits",
    [
        {"max_connections": 0},
        {"max_connections_per_ip_overrides": "127.0.0.1:0"},
        {"max_connection_creation_rate": 1},
    ],
    ids=["in all", "from one address", "in a second"],
)


async def own_client(server):
    client = Client(await server.own.connect("127.0.0.1", port_of(server)))
    at_end(client.close_at_end)
    return client


@NOBODY_ELSE
@pytest.mark.parametrize("threads", [1, 2])
async def test_no_limit_keeps_it_out_and_it_is_not_counted(limits, threads):
    server = await serving(num_network_threads=threads, **limits)
    for _ in range(2):
        client = await own_client(server)
        assert await asyncio.wait_for(client.ask(b"hello"), 1) == b"hello"
        assert len(server) == 0
        client.socket.close()


async def test_it_comes_in_past_those_who_wait_for_room():
    server = await serving(max_connections=1)
    first, second = await Client.connect(server), await Client.connect(server)
    assert await first.ask(b"first") == b"first"
    own = await own_client(server)
    assert await own.ask(b"own") == b"own"
    assert await second.is_ended()
    third = await Client.connect(server)
    await third.send(framed(b"third"))
    assert await first.ask(b"again") == b"again"
    assert len(server) == 1
    first.socket.close()
    assert await third.receive() == b"third"


async def test_others_are_not_taken_for_it():
    server = await serving(max_connections_per_ip_overrides="127.0.0.1:0")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        server.own._expect(bound.getsockname()[1])
        another = await Client.connect(server)
        assert await another.is_ended()
    assert server.own.are_expected


async def test_one_that_does_not_come_is_not_expected_for_ever(monkeypatch):
    monkeypatch.setattr("odradek.broker.network.own_connections.EXPECTED_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        own = OwnConnections(lambda: None)
        with await own.connect(*elsewhere.getsockname()):
            await until(lambda: not own.are_expected)


async def test_where_nobody_listens_it_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
    with pytest.raises(ConnectionRefusedError):
        await OwnConnections(lambda: None).connect(*address)
