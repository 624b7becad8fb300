"""The options of an accepted socket, and which processor gets it."""

import socket
import threading
from collections import Counter

import pytest

from odradek.broker.network.processor import Processor
from tests.support.network_scene import Client, serving

TWO_LISTENERS = {
    "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
    "listener_security_protocol_map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter_broker_listener_name": "BROKERS",
}
#: Linux adds its own overhead.
FACTORS = (1, 2)

both = pytest.mark.parametrize("threads", [1, 2])


@pytest.fixture
def adopted(monkeypatch):
    """Returns the sockets that processors accepted, each with the name of its thread."""
    pairs, accept = [], Processor.accept

    def record_and_accept(processor, accepted, context):
        pairs.append((accepted, threading.current_thread().name))
        accept(processor, accepted, context)

    monkeypatch.setattr(Processor, "accept", record_and_accept)
    return pairs


async def accepted_socket(adopted, **settings):
    server = await serving(**settings)
    client = await Client.connect(server)
    assert await client.ask(b"hello") == b"hello"
    ((server_socket, _),) = adopted
    return server_socket


@both
async def test_server_sockethas_nodelay_and_keepalive_and_does_not_block(adopted, threads):
    accepted = await accepted_socket(adopted, num_network_threads=threads)
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert not accepted.getblocking()


@pytest.mark.parametrize("size", [20_000, 102_400])
@pytest.mark.parametrize(
    ("setting", "option"),
    [
        ("socket_send_buffer_bytes", socket.SO_SNDBUF),
        ("socket_receive_buffer_bytes", socket.SO_RCVBUF),
    ],
)
async def test_socket_buffers_have_the_configured_size(adopted, setting, option, size):
    accepted = await accepted_socket(adopted, **{setting: size})
    assert accepted.getsockopt(socket.SOL_SOCKET, option) in [size * factor for factor in FACTORS]


async def test_socket_buffers_have_the_default_size_if_the_setting_is_minus_one(adopted):
    accepted = await accepted_socket(
        adopted, socket_send_buffer_bytes=-1, socket_receive_buffer_bytes=-1
    )
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as default,
    ):
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            expected = default.getsockopt(socket.SOL_SOCKET, option)
            assert accepted.getsockopt(socket.SOL_SOCKET, option) == expected


async def test_processors_of_a_listener_get_connections_in_turn(adopted):
    server = await serving(num_network_threads=3, **TWO_LISTENERS)
    for listener in ("CLIENTS", "BROKERS", "CLIENTS"):
        for _ in range(3):
            client = await Client.connect(server, listener)
            assert await client.ask(b"hello") == b"hello"
    assert Counter(name for _, name in adopted) == {
        **{f"network-CLIENTS-{number}": 2 for number in range(3)},
        **{f"network-BROKERS-{number}": 1 for number in range(3)},
    }
