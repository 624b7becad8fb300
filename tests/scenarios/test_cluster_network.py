"""A network that is cut holds what was on its way, as a cable that was pulled, and delivers it."""

import socket
import socketserver
import threading
import time

import pytest

from tests.support.cluster_network import LOOPBACK, Network

BRIEF_S, LONG_S = 0.2, 20


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while piece := self.request.recv(4096):
            self.request.sendall(piece)


@pytest.fixture
def network():
    """Whose ZooKeeper says what it hears."""
    with socketserver.ThreadingTCPServer((LOOPBACK, 0), Echo) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        host, port = server.server_address
        try:
            with Network(f"{host}:{port}", brokers=2) as made:
                yield made
        finally:
            server.shutdown()
            thread.join()


def connected(network, broker):
    """As that broker reaches ZooKeeper."""
    return socket.create_connection((LOOPBACK, network._to_zookeeper[broker]), LONG_S)


def heard(wire, count=1, *, within_s=LONG_S):
    wire.settimeout(within_s)
    try:
        return wire.recv(count)
    except TimeoutError:
        return None


def test_what_is_said_during_a_cut_is_heard_when_it_is_mended(network):
    with connected(network, 0) as cut_off, connected(network, 1) as other:
        cut_off.sendall(b"a")
        assert heard(cut_off) == b"a"
        network.cut_from_zookeeper(0)
        cut_off.sendall(b"b")
        other.sendall(b"c")
        assert heard(other) == b"c"
        assert heard(cut_off, within_s=BRIEF_S) is None
        with connected(network, 0) as late:
            late.sendall(b"d")
            assert heard(late, within_s=BRIEF_S) is None
            network.mend()
            assert (heard(cut_off), heard(late)) == (b"b", b"d")


def test_a_slow_network_is_slow_and_takes_much_at_once(network):
    with connected(network, 0) as wire:
        wire.sendall(b"a")
        assert heard(wire) == b"a"
        network.delay(BRIEF_S)
        begun = time.monotonic()
        for _ in range(50):
            wire.sendall(b"b")
        got = b""
        while len(got) < 50:
            got += heard(wire, 50)
        assert 2 * BRIEF_S <= time.monotonic() - begun < 50 * BRIEF_S


def test_who_is_isolated_reaches_neither_zookeeper_nor_peers(network):
    network.isolate(1)
    assert network._cut == {frozenset((1, 0)), frozenset((1, -1))}
