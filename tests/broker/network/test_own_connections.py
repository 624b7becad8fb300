"""The broker's own controller comes in, whatever the limits on connections."""

import asyncio
import socket

import pytest

from odradek.broker.network.own_connections import OwnConnections
from tests.support.network_scene import Client, port_of, serving, until

NOBODY_ELSE = pytest.mark.parametrize(
    "limits",
    [
        {"max_connections": 0},
        {"max_connections_per_ip_overrides": "127.0.0.1:0"},
        {"max_connection_creation_rate": 1},
    ],
    ids=["in all", "from one address", "in a second"],
)


async def own_client(server, host="127.0.0.1"):
    return Client(await server.own.connect(host, port_of(server)))


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
    waiting = asyncio.ensure_future(third.ask(b"third"))
    await own.ask(b"own")
    assert not waiting.done()
    first.socket.close()
    assert await waiting == b"third"
    own.socket.close()
    await until(lambda: len(server) == 1)


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
