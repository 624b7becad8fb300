"""More connections than file descriptors, and thousands of idle connections."""

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.network_scene import Client, until
from tests.support.scripted_connection import framed

IDLE = 2000
KB_PER_CONNECTION = 8


class Server:
    def __init__(self, process):
        self._process = process
        self.port = int(process.stdout.readline())

    def state(self):
        """Returns the resident kilobytes and the number of connections."""
        self._process.stdin.write("?\n")
        self._process.stdin.flush()
        return [int(word) for word in self._process.stdout.readline().split()]


@contextmanager
def server_with(descriptors) -> Iterator[Server]:
    command = [sys.executable, "-m", "tests.support.echo_server", str(descriptors)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        try:
            server = Server(process)
            yield server
            process.stdin.close()
            server.log = process.stderr.read()
            assert process.wait() == 0, server.log
        finally:
            process.kill()


async def test_server_without_descriptors_serves_its_connections_and_later_the_others():
    with server_with(descriptors=40) as server:
        clients = [await Client.connect_to(server.port) for _ in range(60)]
        for client in clients:
            await client.send(framed(b"hello"))
        first = clients[0]
        assert await first.receive() == b"hello"
        await until(lambda: server.state()[1] > 20)
        assert await first.ask(b"again") == b"again"
        for client in clients[1:35]:
            client.close()
        for client in clients[35:]:
            assert await client.receive() == b"hello"
    lines = [line for line in server.log.splitlines() if "Too many open files" in line]
    assert 1 <= len(lines) <= 5


def test_thousands_of_idle_connections_take_little_memory():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE + 200:
        pytest.skip(f"this system allows only {hard} descriptors")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, IDLE + 200), hard))
    with server_with(descriptors=IDLE + 100) as server:
        exchange(server.port, 10)
        before_kb, _ = server.state()
        clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(IDLE)]
        try:
            for client in clients:
                client.sendall(framed(b"hello") + b"\0\0")
            for client in clients:
                assert client.recv(100) == framed(b"hello")
            after_kb, connections = server.state()
            assert connections == IDLE
            assert (after_kb - before_kb) / IDLE < KB_PER_CONNECTION
        finally:
            for client in clients:
                client.close()
        exchange(server.port, 10)


def exchange(port, count):
    with socket.create_connection(("127.0.0.1", port)) as client:
        for _ in range(count):
            client.sendall(framed(b"x"))
            assert client.recv(100) == framed(b"x")
