"""Listening sockets and advertised endpoints."""

import re
import socket

import pytest

from odradek.broker.network.endpoint import Endpoint
from odradek.broker.network.listener import ListenerError, open_listener, resolve_advertised
from odradek.broker.network.socket_server import SocketServer
from odradek.broker.settings.network import NetworkSettings
from tests.support.network_scene import LOOPBACK
from tests.support.scripted_connection import echo


def listen_on(host, port=0, receive_buffer_bytes=-1):
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", host, port)
    return open_listener(endpoint, backlog=5, receive_buffer_bytes=receive_buffer_bytes)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "", "0.0.0.0"])
def test_free_port_is_bound_and_known(host):
    listener = listen_on(host)
    try:
        assert listener.endpoint.port > 0
        socket.create_connection(("127.0.0.1", listener.endpoint.port)).close()
    finally:
        listener.close()


def test_bind_to_a_foreign_address_is_one_clear_error():
    with pytest.raises(ListenerError, match=r"failed to bind to PLAINTEXT://192\.0\.2\.1:0: "):
        listen_on("192.0.2.1")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "10.0.0..1", "a" * 64])
def test_bind_to_an_unknown_host_is_one_clear_error(host):
    with pytest.raises(
        ListenerError, match=rf"failed to bind to PLAINTEXT://{re.escape(host)}:0: "
    ):
        listen_on(host)


def test_receive_buffer_has_the_configured_size():
    listener = listen_on("127.0.0.1", receive_buffer_bytes=50_000)
    try:
        size = listener.server_socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        assert size == 2 * 50_000  # the kernel doubles it for its overhead
    finally:
        listener.close()


async def test_backlog_has_the_configured_size(monkeypatch):
    backlogs, listen = [], socket.socket.listen

    def record_and_listen(listening, backlog):
        backlogs.append(backlog)
        listen(listening, backlog)

    monkeypatch.setattr(socket.socket, "listen", record_and_listen)
    settings = NetworkSettings(listeners=LOOPBACK, socket_listen_backlog_size=7)
    server = SocketServer(settings, echo, start_task=None)
    server.open()
    await server.stop(timeout_s=1)
    assert backlogs == [7]


def test_advertised_endpoint_has_the_bound_port_and_the_local_host():
    listener = listen_on("127.0.0.1")
    try:
        advertised = [Endpoint("PLAINTEXT", "PLAINTEXT", "", 0)]
        (resolved,) = resolve_advertised(advertised, [listener], local_host=lambda: "we.example")
        assert resolved == Endpoint("PLAINTEXT", "PLAINTEXT", "we.example", listener.endpoint.port)
        fixed = Endpoint("PLAINTEXT", "PLAINTEXT", "front.example", 443)
        assert resolve_advertised([fixed], [listener]) == (fixed,)
    finally:
        listener.close()
