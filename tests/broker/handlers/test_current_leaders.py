"""Who produces to the wrong broker is told where the leader is, as who fetches from it is."""

from types import SimpleNamespace

import pytest

from odradek.broker.handlers import produce
from odradek.broker.metadata.picture import Node
from odradek.protocol.api.produce import ProduceRequest, ProduceResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import NotLeader
from odradek.protocol.types import Uuid
from tests.support.asked_coordinator import NOBODY_ASKED
from tests.support.calls import as_sent, called
from tests.support.fetches import SeenCluster
from tests.support.hosted_partitions import BROKER, Hosting
from tests.support.logs import NOW_MS, records_batch

OTHER, ABSENT = 2, 3
AN_ID = Uuid(bytes([1] * 16))
NOBODY = (-1, -1)


class Bench:
    """A broker beside another, each of which can be reached."""

    def __init__(self, path):
        self.hosting = Hosting(path)
        self.cluster = SeenCluster(self.hosting)
        self.cluster.brokers |= {
            BROKER: Node(BROKER, "here", 9092, None),
            OTHER: Node(OTHER, "there", 9093, "r"),
        }

    def lead(self, partition, leader, **state):
        return self.hosting.lead(
            partition=partition, leader=leader, replicas=(BROKER, OTHER, ABSENT), **state
        )

    def answer(self, *partitions, version=12, acks=1):
        entries = [
            ProduceRequest.Topic.Partition(index=each, records=memoryview(records_batch(b"v")))
            for each in partitions
        ]
        topic = ProduceRequest.Topic(name="events", partition_data=entries)
        if version >= 13:
            topic.name, topic.topic_id = "", AN_ID
        asked = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[topic])
        call = called(asked, version=version)
        needed = self.hosting.replicas, self.cluster, self.hosting.reader, NOBODY_ASKED
        return produce.handle(*needed, lambda: NOW_MS, call)


def hints(response: ProduceResponse, version=12):
    """Error and leader of every line, and where leaders are, as the client reads them."""
    read = as_sent(response, version=version)
    lines = [
        (
            ErrorCode.of(line.error_code).name,
            (line.current_leader.leader_id, line.current_leader.leader_epoch),
        )
        for line in read.responses[0].partition_responses
    ]
    endpoints = [(each.node_id, each.host, each.port, each.rack) for each in read.node_endpoints]
    return lines, endpoints


THERE = (OTHER, "there", 9093, "r")


@pytest.mark.parametrize("version", [10, 12, 13])
async def test_the_leader_of_a_partition_is_told_with_its_epoch_and_address(tmp_path, version):
    bench = Bench(tmp_path)
    bench.lead(0, OTHER, epoch=4, topic_id=AN_ID)
    bench.lead(1, BROKER, epoch=5, topic_id=AN_ID)
    bench.lead(2, OTHER, epoch=6, topic_id=AN_ID)
    bench.hosting.known.names[AN_ID] = "events"
    lines, endpoints = hints(bench.answer(0, 1, 2, version=version), version)
    assert lines == [
        ("NOT_LEADER_OR_FOLLOWER", (OTHER, 4)),
        ("NONE", NOBODY),
        ("NOT_LEADER_OR_FOLLOWER", (OTHER, 6)),
    ]
    assert endpoints == [THERE]


@pytest.mark.parametrize("version", [12, 13])
async def test_a_partition_that_is_not_here_is_looked_up_in_the_picture(tmp_path, version):
    bench = Bench(tmp_path)
    bench.hosting.known.partitions.add(("events", 5))
    bench.hosting.known.names[AN_ID] = "events"
    bench.cluster.leaders["events", 5] = SimpleNamespace(leader=OTHER, leader_epoch=8)
    lines, endpoints = hints(bench.answer(5, version=version), version)
    assert lines == [("NOT_LEADER_OR_FOLLOWER", (OTHER, 8))]
    assert endpoints == [THERE]


async def test_a_leader_that_cannot_be_reached_is_named_without_an_address(tmp_path):
    bench = Bench(tmp_path)
    bench.lead(0, ABSENT, epoch=4)
    assert hints(bench.answer(0)) == ([("NOT_LEADER_OR_FOLLOWER", (ABSENT, 4))], [])


async def test_other_failures_and_older_clients_get_no_hints(tmp_path):
    bench = Bench(tmp_path)
    bench.lead(0, OTHER, epoch=4)
    assert hints(bench.answer(7)) == ([("UNKNOWN_TOPIC_OR_PARTITION", NOBODY)], [])
    assert hints(bench.answer(0, version=9), 9) == ([("NOT_LEADER_OR_FOLLOWER", NOBODY)], [])


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_who_has_waited_when_the_leader_changes_is_told_of_the_new_one(tmp_path, is_deleted):
    bench = Bench(tmp_path)
    partition = bench.lead(0, BROKER, topic_id=AN_ID)
    bench.hosting.known.names[AN_ID] = "events"
    waiting = bench.answer(0, acks=-1, version=13)
    if is_deleted:
        partition.end(NotLeader("it is gone"))
        bench.hosting.known.names.clear()
    else:
        partition.follow(OTHER, leader_epoch=9, partition_epoch=3)
    ((error, leader),), endpoints = hints(await waiting, 13)
    assert error == "NOT_LEADER_OR_FOLLOWER"
    if not is_deleted:
        assert (leader, endpoints) == ((OTHER, 9), [THERE])
