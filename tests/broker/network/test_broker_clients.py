"""Clients of the brokers of the cluster."""

from odradek.broker.metadata.picture import Node
from odradek.broker.network.broker_clients import BrokerClients


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
    clients = BrokerClients(Client)
    assert clients.to(node()) is clients.to(node())
    assert clients.to(node(2)).node == node(2)


def test_a_broker_that_has_moved_gets_another():
    clients = BrokerClients(Client)
    before, after = clients.to(node()), clients.to(node(port=9093))
    assert (before.is_closed, after.is_closed, after.node.port) == (True, False, 9093)


def test_all_are_closed_together():
    clients = BrokerClients(Client)
    made = [clients.to(node()), clients.to(node(2))]
    clients.close()
    assert all(each.is_closed for each in made)


def test_whoever_asks_afterwards_reaches_nobody():
    clients = BrokerClients(Client)
    clients.to(node())
    clients.close()
    assert all(clients.to(node(number)).is_closed for number in (1, 2))


def test_those_of_all_others_are_closed_and_made_again():
    clients = BrokerClients(Client)
    kept, dropped = clients.to(node()), clients.to(node(2))
    clients.drop_others(1)
    assert (kept.is_closed, dropped.is_closed) == (False, True)
    assert clients.to(node()) is kept
    assert not clients.to(node(2)).is_closed
