"""Packets that meet a cut are gone, and nobody is told; TCP sends them again when it is mended."""

import socket
from contextlib import ExitStack

import pytest

from tests.support.namespaced_cluster import NEEDS_NAMESPACES
from tests.support.packet_network import PacketNetwork, address_of
from tests.support.tun_devices import inside

pytestmark = NEEDS_NAMESPACES

BRIEF_S, LONG_S = 0.2, 20


@pytest.fixture
def network():
    with PacketNetwork(brokers=2) as made:
        yield made


@pytest.fixture
def wires(network):
    """To broker 0 from the other and from a client, and from it to ZooKeeper: both ends of each."""
    with ExitStack() as stack:

        def listening(address):
            return stack.enter_context(socket.create_server((address, 0)))

        def connected(server):
            near = stack.enter_context(socket.create_connection(server.getsockname(), LONG_S))
            far, _ = server.accept()
            return near, stack.enter_context(far)

        broker = inside(network.namespaces[0], lambda: listening(address_of(0)))
        zookeeper = listening(network.zookeeper)
        yield {
            "peer": inside(network.namespaces[1], lambda: connected(broker)),
            "client": connected(broker),
            "zookeeper": inside(network.namespaces[0], lambda: connected(zookeeper)),
        }


def said(wire):
    """What of it is heard at the other end, for as long as one may wait."""
    near, far = wire
    near.sendall(b"a")
    far.settimeout(BRIEF_S)
    try:
        return far.recv(1)
    except TimeoutError:
        return None


def heard(wires):
    return {name for name, wire in wires.items() if said(wire)}


def test_all_reach_each_other_on_a_network_that_is_whole(wires):
    assert heard(wires) == {"peer", "client", "zookeeper"}


def test_a_broker_is_cut_off_from_whom_a_test_says(network, wires):
    network.cut(0, 1)
    assert heard(wires) == {"client", "zookeeper"}
    network.mend()
    assert said(wires["client"])
    network.cut_from_zookeeper(0)
    assert "zookeeper" not in heard(wires)


def test_clients_reach_a_broker_that_is_isolated_and_what_others_said_is_heard_later(
    network, wires
):
    network.isolate(0)
    assert heard(wires) == {"client"}
    network.mend()
    for name in ("peer", "zookeeper"):
        _, far = wires[name]
        far.settimeout(LONG_S)
        assert far.recv(1) == b"a"


def test_nobody_is_told_of_a_connection_that_ends_during_a_cut(network, wires):
    near, far = wires["peer"]
    network.cut(0, 1)
    near.close()
    far.settimeout(BRIEF_S)
    with pytest.raises(TimeoutError):
        far.recv(1)
    network.mend()
    far.settimeout(LONG_S)
    assert far.recv(1) == b""


def test_packets_get_lost_between_brokers_only(network, wires):
    network.loss = 1.0
    assert heard(wires) == {"client", "zookeeper"}
    assert network.lost > 0
