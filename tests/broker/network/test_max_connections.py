"""max.connections: which connections wait, and which are closed to make room."""

import asyncio

import pytest

from odradek.broker.settings.network import NetworkSettings
from tests.support.network_scene import LOOPBACK, Client, port_of, serving, until
from tests.support.scripted_connection import framed

TWO_LISTENERS = "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0"
PLAIN = "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT"

both = pytest.mark.parametrize("threads", [1, 2])


async def test_connection_beyond_max_connections_waits_for_a_slot():
    server = await serving(max_connections=2)
    first, second = await Client.connect(server), await Client.connect(server)
    assert await first.ask(b"1") == await second.ask(b"1") == b"1"
    third = await Client.connect(server)
    await third.send(framed(b"3"))
    assert await first.ask(b"still") == b"still"
    assert len(server) == 2
    second.close()
    assert await third.receive() == b"3"


@both
async def test_inter_broker_connection_replaces_the_least_recently_used_client(threads):
    server = await serving(
        listeners=TWO_LISTENERS,
        listener_security_protocol_map=PLAIN,
        inter_broker_listener_name="BROKERS",
        max_connections=2,
        num_network_threads=threads,
    )
    first, second = [await Client.connect(server, "CLIENTS") for _ in range(2)]
    for client in (first, second, first):
        assert await client.ask(b"x") == b"x"
    broker = await Client.connect(server, "BROKERS")
    assert await broker.ask(b"fetch") == b"fetch"
    assert await second.is_ended()
    assert await first.ask(b"x") == b"x"
    await until(lambda: len(server) == 2)


@both
async def test_simultaneous_inter_broker_connections_replace_a_client_each(threads):
    server = await serving(
        listeners=TWO_LISTENERS,
        listener_security_protocol_map=PLAIN,
        inter_broker_listener_name="BROKERS",
        max_connections=4,
        num_network_threads=threads,
    )
    clients = [await Client.connect(server, "CLIENTS") for _ in range(4)]
    for client in clients:
        assert await client.ask(b"x") == b"x"
    brokers = await asyncio.gather(*[Client.connect(server, "BROKERS") for _ in range(3)])
    for broker in brokers:
        assert await broker.ask(b"fetch") == b"fetch"
    for client in clients[:3]:
        assert await client.is_ended()
    await until(lambda: len(server) == 4)
    assert await clients[3].ask(b"x") == b"x"


@both
async def test_lowered_limit_closes_the_least_recently_used_connections(threads):
    settings = {"listeners": LOOPBACK, "num_network_threads": threads}
    server = await serving(**settings)
    clients = [await Client.connect(server) for _ in range(5)]
    for client in (*clients, clients[0]):
        assert await client.ask(b"x") == b"x"
    server.apply(NetworkSettings(**settings, max_connections=2))
    server.apply(NetworkSettings(**settings, max_connections=2))
    for client in clients[1:4]:
        assert await client.is_ended()
    for client in (clients[0], clients[4]):
        assert await client.ask(b"x") == b"x"
    await until(lambda: len(server) == 2)


async def test_local_controller_connection_is_never_closed_to_make_room():
    server = await serving()
    local_connection = await server.local_connections.connect("127.0.0.1", port_of(server))
    loop = asyncio.get_running_loop()
    with local_connection:
        await loop.sock_sendall(local_connection, framed(b"x"))
        assert await loop.sock_recv(local_connection, 100) == framed(b"x")
        client = await Client.connect(server)
        assert await client.ask(b"x") == b"x"
        server.apply(NetworkSettings(listeners=LOOPBACK, max_connections=0))
        assert await client.is_ended()
        await loop.sock_sendall(local_connection, framed(b"y"))
        assert await loop.sock_recv(local_connection, 100) == framed(b"y")
