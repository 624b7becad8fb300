"""Clients of the brokers of the cluster."""

from odradek.broker.metadata.picture import Node
from odradek.broker.network.peers import Peers


class Client:
    """To one broker; never asked."""

    def __init__(self, node):
        self.node = node
        self.is_closed = False

    def close(self):
        self.is_closed = True


def node(number=1, port=9092):
    return Node(number, "here", port, None)


def test_each_broker_has_one_client():
    peers = Peers(Client)
    assert peers.client(node()) is peers.client(node())
    assert peers.client(node(2)).node == node(2)


def test_a_broker_that_has_moved_gets_another():
    peers = Peers(Client)
    before, after = peers.client(node()), peers.client(node(port=9093))
    assert (before.is_closed, after.is_closed, after.node.port) == (True, False, 9093)


def test_all_are_closed_together():
    peers = Peers(Client)
    clients = [peers.client(node()), peers.client(node(2))]
    peers.close()
    assert all(each.is_closed for each in clients)
    assert peers.client(node()) not in clients
