"""A cluster is asked within one deadline, whoever of its brokers is silent."""

import asyncio
import socket

import pytest

from odradek.broker.cli import client
from odradek.broker.cli.direct import Address, Connections, NoAnswer
from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.reassign.moves import under_way
from odradek.protocol.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.api.metadata import MetadataRequest
from tests.support.scripted_brokers import ScriptedBrokers, metadata

#: So little that the deadline comes, and so much that whoever answers does so before.  Who is
#: silent here is so for ever: without a deadline a test would not end.
SHORT_S, LONG_S = 0.2, 20.0


async def test_a_silent_broker_does_not_keep_the_next_one_from_being_asked():
    brokers = ScriptedBrokers({(2, MetadataRequest): metadata([2], {})})
    picture = await brokers.cluster(0, 1, 2, timeout_s=LONG_S).picture()
    assert [*picture.brokers] == [2]
    assert [port for port, _ in brokers.asked] == [0, 1, 2]


async def test_who_has_failed_is_followed_by_the_next_and_who_answered_is_asked_first():
    brokers = ScriptedBrokers({MetadataRequest: metadata([1], {})})
    brokers.answers[(0, MetadataRequest)] = NoAnswer("alas")
    cluster = brokers.cluster(0, 1)
    await cluster.picture()
    await cluster.picture()
    assert [port for port, _ in brokers.asked] == [0, 1, 1]


async def test_three_silent_brokers_cost_one_timeout():
    cluster = ScriptedBrokers({}).cluster(0, 1, 2, timeout_s=SHORT_S)
    with pytest.raises(NoAnswer, match=r"^no broker answers in 0\.2 s: h:0, h:1, h:2$"):
        await cluster.picture()


async def test_a_silent_controller_costs_one_timeout_and_is_named():
    brokers = ScriptedBrokers({MetadataRequest: metadata([0, 1], {}, controller=1)})
    with pytest.raises(NoAnswer, match=r"^broker 1, the controller, does not answer in 0\.2 s$"):
        await under_way(brokers.cluster(0, timeout_s=SHORT_S))


async def test_why_the_controller_could_not_be_asked_is_told_in_the_end():
    brokers = ScriptedBrokers({MetadataRequest: metadata([0, 1], {}, controller=1)})
    brokers.answers[ListPartitionReassignmentsRequest] = NoAnswer("alas")
    with pytest.raises(NoAnswer, match=r"^alas$"):
        await under_way(brokers.cluster(0, timeout_s=SHORT_S))
    asked = [port for port, request in brokers.asked if not isinstance(request, MetadataRequest)]
    assert len(asked) > 1


async def test_what_is_refused_for_good_is_not_asked_again():
    brokers = ScriptedBrokers({MetadataRequest: metadata([0, 1], {})})
    brokers.answers[ListPartitionReassignmentsRequest] = CommandFailed("too large")
    async with asyncio.timeout(LONG_S / 2):
        with pytest.raises(CommandFailed, match="too large"):
            await under_way(brokers.cluster(0, timeout_s=LONG_S))
    assert [port for port, _ in brokers.asked] == [0, 0]


@pytest.mark.parametrize("topic", ["o" * 40_000, "\ud800"])
async def test_what_the_protocol_cannot_carry_is_told_in_one_line(topic):
    asked = MetadataRequest(topics=[MetadataRequest.Topic(name=topic)])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connections = Connections(LONG_S)
        with pytest.raises(CommandFailed, match=r"^this cannot be asked: Meta.* topics") as failed:
            await connections.ask(Address(*silent.getsockname()), asked, version=7)
        connections.close()
    assert not isinstance(failed.value, NoAnswer)
    assert len(str(failed.value)) < 200


async def test_a_broker_that_is_not_there_is_named_once():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address(*silent.getsockname())
        connections = Connections(SHORT_S)
        with pytest.raises(NoAnswer, match=f"^the broker at {address} does not answer in time$"):
            await connections.ask(address, MetadataRequest(topics=[]), version=7)
        connections.close()
    with pytest.raises(NoAnswer, match=f"^the broker at {address} does not answer: Connection ref"):
        await Connections(SHORT_S).ask(address, MetadataRequest(topics=[]), version=7)


def test_connections_that_hang_cost_one_timeout_all_together(offline, monkeypatch):
    given = []

    def hang(_address, timeout):
        given.append(timeout)
        raise TimeoutError("timed out")

    monkeypatch.setattr(client.socket, "create_connection", hang)
    words = ("topics", "list", "--bootstrap", "a:1,b:2,c:3", "--timeout", "6")
    assert offline(*words).complaint.endswith("a:1: timed out, b:2: timed out, c:3: timed out")
    assert given == [2, 2, 2]
