"""Produce to the wrong broker returns the current leader, as Fetch does."""

from types import SimpleNamespace

import pytest

from odradek.broker.handlers import produce
from odradek.broker.metadata.metadata_snapshot import Node
from odradek.protocol.api.produce import ProduceRequest, ProduceResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import NotLeaderOrFollower
from odradek.protocol.types import Uuid
from tests.support.asked_coordinator import NOBODY_ASKED
from tests.support.calls import as_sent, called
from tests.support.fetches import SeenCluster
from tests.support.hosted_partitions import BROKER, Hosting
from tests.support.logs import NOW_MS, records_batch

OTHER, ABSENT = 2, 3
AN_ID = Uuid(bytes([1] * 16))
NO_LEADER = (-1, -1)


class Bench:
    """This broker and another one, both reachable."""

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

    def produce(self, *partitions, version=12, acks=1):
        entries = [
            ProduceRequest.Topic.Partition(index=index, records=memoryview(records_batch(b"v")))
            for index in partitions
        ]
        topic = ProduceRequest.Topic(name="events", partition_data=entries)
        if version >= 13:
            topic.name, topic.topic_id = "", AN_ID
        body = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[topic])
        request = called(body, version=version)
        dependencies = self.hosting.replicas, self.cluster, self.hosting.reader, NOBODY_ASKED
        return produce.handle(*dependencies, lambda: NOW_MS, request)


def leaders_and_endpoints(response: ProduceResponse, version=12):
    """Return error and leader of each partition, and the endpoints, as the client decodes them."""
    decoded = as_sent(response, version=version)
    leaders = [
        (
            ErrorCode.for_code(partition.error_code).name,
            (partition.current_leader.leader_id, partition.current_leader.leader_epoch),
        )
        for partition in decoded.responses[0].partition_responses
    ]
    endpoints = [(each.node_id, each.host, each.port, each.rack) for each in decoded.node_endpoints]
    return leaders, endpoints


THERE = (OTHER, "there", 9093, "r")


@pytest.mark.parametrize("version", [10, 12, 13])
async def test_current_leader_is_returned_with_its_epoch_and_endpoint(tmp_path, version):
    bench = Bench(tmp_path)
    bench.lead(0, OTHER, epoch=4, topic_id=AN_ID)
    bench.lead(1, BROKER, epoch=5, topic_id=AN_ID)
    bench.lead(2, OTHER, epoch=6, topic_id=AN_ID)
    bench.hosting.known.names[AN_ID] = "events"
    leaders, endpoints = leaders_and_endpoints(bench.produce(0, 1, 2, version=version), version)
    assert leaders == [
        ("NOT_LEADER_OR_FOLLOWER", (OTHER, 4)),
        ("NONE", NO_LEADER),
        ("NOT_LEADER_OR_FOLLOWER", (OTHER, 6)),
    ]
    assert endpoints == [THERE]


@pytest.mark.parametrize("version", [12, 13])
async def test_current_leader_of_a_remote_partition_comes_from_the_metadata(tmp_path, version):
    bench = Bench(tmp_path)
    bench.hosting.known.partitions.add(("events", 5))
    bench.hosting.known.names[AN_ID] = "events"
    bench.cluster.leaders["events", 5] = SimpleNamespace(leader=OTHER, leader_epoch=8)
    leaders, endpoints = leaders_and_endpoints(bench.produce(5, version=version), version)
    assert leaders == [("NOT_LEADER_OR_FOLLOWER", (OTHER, 8))]
    assert endpoints == [THERE]


async def test_unreachable_leader_is_returned_without_an_endpoint(tmp_path):
    bench = Bench(tmp_path)
    bench.lead(0, ABSENT, epoch=4)
    assert leaders_and_endpoints(bench.produce(0)) == (
        [("NOT_LEADER_OR_FOLLOWER", (ABSENT, 4))],
        [],
    )


async def test_other_errors_and_older_versions_have_no_current_leader(tmp_path):
    bench = Bench(tmp_path)
    bench.lead(0, OTHER, epoch=4)
    assert leaders_and_endpoints(bench.produce(7)) == (
        [("UNKNOWN_TOPIC_OR_PARTITION", NO_LEADER)],
        [],
    )
    assert leaders_and_endpoints(bench.produce(0, version=9), 9) == (
        [("NOT_LEADER_OR_FOLLOWER", NO_LEADER)],
        [],
    )


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_delayed_produce_returns_the_new_leader_after_a_leader_change(tmp_path, is_deleted):
    bench = Bench(tmp_path)
    partition = bench.lead(0, BROKER, topic_id=AN_ID)
    bench.hosting.known.names[AN_ID] = "events"
    waiting = bench.produce(0, acks=-1, version=13)
    if is_deleted:
        partition.stop(NotLeaderOrFollower("deleted"))
        bench.hosting.known.names.clear()
    else:
        partition.make_follower(OTHER, leader_epoch=9, partition_epoch=3)
    ((error, leader),), endpoints = leaders_and_endpoints(await waiting, 13)
    assert error == "NOT_LEADER_OR_FOLLOWER"
    if not is_deleted:
        assert (leader, endpoints) == ((OTHER, 9), [THERE])
