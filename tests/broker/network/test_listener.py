"""Listening sockets: what is bound, and what others are told."""

import re
import socket

import pytest

from odradek.broker.network.endpoint import Endpoint
from odradek.broker.network.listener import ListenerError, open_listener, resolved
from odradek.broker.network.socket_server import SocketServer
from odradek.broker.settings.network import NetworkSettings
from tests.support.network_scene import LOOPBACK
from tests.support.scripted_connection import echo


def opened(host, port=0, receive_buffer_bytes=-1):
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", host, port)
    return open_listener(endpoint, backlog=5, receive_buffer_bytes=receive_buffer_bytes)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "", "0.0.0.0"])
def test_any_free_port_is_bound_and_known(host):
    listener = opened(host)
    try:
        assert listener.endpoint.port > 0
        socket.create_connection(("127.0.0.1", listener.endpoint.port)).close()
    finally:
        listener.close()


def test_a_host_that_is_not_ours_is_one_clear_line():
    with pytest.raises(ListenerError, match=r"PLAINTEXT://192\.0\.2\.1:0 cannot be listened on: "):
        opened("192.0.2.1")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "10.0.0..1", "a" * 64])
def test_a_host_that_nobody_knows_is_one_clear_line(host):
    with pytest.raises(ListenerError, match=rf"PLAINTEXT://{re.escape(host)}:0 cannot"):
        opened(host)


def test_the_receive_buffer_is_what_the_setting_says():
    listener = opened("127.0.0.1", receive_buffer_bytes=50_000)
    try:
        size = listener.listening.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        assert size == 2 * 50_000  # the kernel doubles it for its own bookkeeping
    finally:
        listener.close()


async def test_the_backlog_is_what_the_setting_says(monkeypatch):
    listened, listen = [], socket.socket.listen

    def noting(listening, backlog):
        listened.append(backlog)
        listen(listening, backlog)

    monkeypatch.setattr(socket.socket, "listen", noting)
    settings = NetworkSettings(listeners=LOOPBACK, socket_listen_backlog_size=7)
    server = SocketServer(settings, echo, start=None)
    server.open()
    await server.stop(timeout_s=1)
    assert listened == [7]


def test_others_are_told_the_port_that_was_bound_and_a_host_that_is_ours():
    listener = opened("127.0.0.1")
    try:
        advertised = [Endpoint("PLAINTEXT", "PLAINTEXT", "", 0)]
        (told,) = resolved(advertised, [listener], own_host=lambda: "we.example")
        assert told == Endpoint("PLAINTEXT", "PLAINTEXT", "we.example", listener.endpoint.port)
        fixed = Endpoint("PLAINTEXT", "PLAINTEXT", "front.example", 443)
        assert resolved([fixed], [listener]) == (fixed,)
    finally:
        listener.close()
