"""``ClusterClient`` keeps one deadline for all brokers, even if some never respond."""

import asyncio
import socket

import pytest

from odradek.broker.cli import client
from odradek.broker.cli.broker_connections import Address, BrokerConnections, RetriableError
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.reassign.reassignments import list_reassignments
from odradek.protocol.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.api.metadata import MetadataRequest
from tests.support.scripted_brokers import ScriptedBrokers, metadata

#: ``SHORT_S`` is short enough to expire in a test; ``LONG_S`` is long enough for every response.
#: A silent broker never responds: without a deadline the test would not end.
SHORT_S, LONG_S = 0.2, 20.0


async def test_silent_broker_does_not_prevent_a_request_to_the_next():
    brokers = ScriptedBrokers({(2, MetadataRequest): metadata([2], {})})
    snapshot = await brokers.cluster(0, 1, 2, timeout_s=LONG_S).fetch_metadata()
    assert [*snapshot.brokers] == [2]
    assert [port for port, _ in brokers.asked] == [0, 1, 2]


async def test_next_broker_follows_a_failed_one_and_the_last_good_one_comes_first():
    brokers = ScriptedBrokers({MetadataRequest: metadata([1], {})})
    brokers.answers[(0, MetadataRequest)] = RetriableError("alas")
    cluster = brokers.cluster(0, 1)
    await cluster.fetch_metadata()
    await cluster.fetch_metadata()
    assert [port for port, _ in brokers.asked] == [0, 1, 1]


async def test_three_silent_brokers_cost_one_timeout():
    cluster = ScriptedBrokers({}).cluster(0, 1, 2, timeout_s=SHORT_S)
    with pytest.raises(RetriableError, match=r"^no broker responded within 0\.2 s: h:0, h:1, h:2$"):
        await cluster.fetch_metadata()


async def test_a_silent_controller_costs_one_timeout_and_is_named():
    brokers = ScriptedBrokers({MetadataRequest: metadata([0, 1], {}, controller=1)})
    with pytest.raises(
        RetriableError, match=r"^broker 1, the controller, did not respond within 0\.2 s$"
    ):
        await list_reassignments(brokers.cluster(0, timeout_s=SHORT_S))


async def test_last_error_of_the_controller_is_raised_after_the_timeout():
    brokers = ScriptedBrokers({MetadataRequest: metadata([0, 1], {}, controller=1)})
    brokers.answers[ListPartitionReassignmentsRequest] = RetriableError("alas")
    with pytest.raises(RetriableError, match=r"^alas$"):
        await list_reassignments(brokers.cluster(0, timeout_s=SHORT_S))
    ports = [port for port, request in brokers.asked if not isinstance(request, MetadataRequest)]
    assert len(ports) > 1


async def test_leaders_after_an_election_are_read_from_the_controller():
    """The metadata of another broker may still name the former leader."""
    brokers = ScriptedBrokers({})
    for broker_id, leader in [(0, 2), (1, 1)]:
        brokers.answers[(broker_id, MetadataRequest)] = metadata(
            [0, 1], {("orders", 0): (leader, [1, 2], [1, 2])}, controller=1
        )
    snapshot = await brokers.cluster(0).fetch_controller_metadata()
    assert snapshot.partitions[TopicAndPartition("orders", 0)].leader == 1


async def test_error_that_is_not_retriable_is_not_retried():
    brokers = ScriptedBrokers({MetadataRequest: metadata([0, 1], {})})
    brokers.answers[ListPartitionReassignmentsRequest] = CommandFailed("too large")
    async with asyncio.timeout(LONG_S / 2):
        with pytest.raises(CommandFailed, match="too large"):
            await list_reassignments(brokers.cluster(0, timeout_s=LONG_S))
    assert [port for port, _ in brokers.asked] == [0, 0]


@pytest.mark.parametrize("topic", ["o" * 40_000, "\ud800"])
async def test_request_that_cannot_be_encoded_is_reported_in_one_line(topic):
    request = MetadataRequest(topics=[MetadataRequest.Topic(name=topic)])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connections = BrokerConnections(LONG_S)
        with pytest.raises(
            CommandFailed, match=r"^cannot encode the request: Meta.* topics"
        ) as raised:
            await connections.send(Address(*silent.getsockname()), request, version=7)
        connections.close()
    assert not isinstance(raised.value, RetriableError)
    assert len(str(raised.value)) < 200


async def test_unreachable_broker_is_named_once():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address(*silent.getsockname())
        connections = BrokerConnections(SHORT_S)
        with pytest.raises(
            RetriableError, match=f"^the broker at {address} does not answer in time$"
        ):
            await connections.send(address, MetadataRequest(topics=[]), version=7)
        connections.close()
    with pytest.raises(
        RetriableError, match=f"^the broker at {address} failed to respond: Connection ref"
    ):
        await BrokerConnections(SHORT_S).send(address, MetadataRequest(topics=[]), version=7)


def test_hanging_connections_share_one_timeout(offline, monkeypatch):
    timeouts = []

    def hang(_address, timeout):
        timeouts.append(timeout)
        raise TimeoutError("timed out")

    monkeypatch.setattr(client.socket, "create_connection", hang)
    arguments = ("topics", "list", "--bootstrap", "a:1,b:2,c:3", "--timeout", "6")
    assert offline(*arguments).complaint.endswith("a:1: timed out, b:2: timed out, c:3: timed out")
    assert timeouts == [2, 2, 2]
