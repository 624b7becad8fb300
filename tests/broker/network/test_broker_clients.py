"""The clients for the other brokers of the cluster."""

from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.network.broker_clients import BrokerClients


class Client:
    """A client of one broker that sends nothing."""

    def __init__(self, node):
        self.node = node
        self.is_closed = False

    def close(self):
        self.is_closed = True


def node(number=1, port=9092):
    return Node(number, "here", port, None)


def test_each_broker_has_one_client():
    clients = BrokerClients(Client)
    assert clients.client_for(node()) is clients.client_for(node())
    assert clients.client_for(node(2)).node == node(2)


def test_broker_with_a_new_address_gets_a_new_client():
    clients = BrokerClients(Client)
    before, after = clients.client_for(node()), clients.client_for(node(port=9093))
    assert (before.is_closed, after.is_closed, after.node.port) == (True, False, 9093)


def test_close_closes_all_clients():
    clients = BrokerClients(Client)
    created = [clients.client_for(node()), clients.client_for(node(2))]
    clients.close()
    assert all(client.is_closed for client in created)


def test_clients_are_closed_from_the_start_after_close():
    clients = BrokerClients(Client)
    clients.client_for(node())
    clients.close()
    assert all(clients.client_for(node(number)).is_closed for number in (1, 2))


def test_close_all_except_closes_the_others_and_they_can_be_created_again():
    clients = BrokerClients(Client)
    kept, dropped = clients.client_for(node()), clients.client_for(node(2))
    clients.close_all_except(1)
    assert (kept.is_closed, dropped.is_closed) == (False, True)
    assert clients.client_for(node()) is kept
    assert not clients.client_for(node(2)).is_closed
