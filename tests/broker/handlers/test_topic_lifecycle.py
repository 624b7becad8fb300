"""Topics from creation to deletion, with the handlers and a real controller."""

import pytest

from odradek.controller.store import paths
from odradek.protocol.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from odradek.protocol.api.create_partitions import CreatePartitionsRequest
from odradek.protocol.api.create_topics import CreateTopicsRequest
from odradek.protocol.api.delete_topics import DeleteTopicsRequest
from odradek.protocol.api.describe_cluster import DescribeClusterRequest
from odradek.protocol.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.protocol.api.elect_leaders import ElectLeadersRequest
from odradek.protocol.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.api.metadata import MetadataRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.types import ZERO_UUID
from tests.support.controlled_cluster import ControlledCluster
from tests.support.stores import MemoryStores
from tests.support.topic_entries import growth_entry, topic_entry
from tests.support.topic_scene import started

TIMEOUT_MS = 10_000


@pytest.fixture
def memory():
    return MemoryStores()


async def create(broker, *entries, version=7):
    request = CreateTopicsRequest(topics=list(entries), timeout_ms=TIMEOUT_MS)
    return (await broker.ask(request, version=version)).topics


async def metadata(broker, *names, version=12):
    request = MetadataRequest(topics=[MetadataRequest.Topic(name=each) for each in names])
    return (await broker.ask(request, version=version)).topics


async def delete(broker, *names, version=6):
    topics = [DeleteTopicsRequest.Topic(name=each, topic_id=ZERO_UUID) for each in names]
    request = DeleteTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
    return (await broker.ask(request, version=version)).responses


async def reassign(broker, topic, partition, replicas):
    topic_type = AlterPartitionReassignmentsRequest.Topic
    entry = topic_type.Partition(partition_index=partition, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=[topic_type(name=topic, partitions=[entry])]
    )
    ((partition_response,),) = [
        each.partitions for each in (await broker.ask(request, version=0)).responses
    ]
    assert partition_response.error_code == 0, partition_response


def errors(results):
    return [ErrorCode.for_code(each.error_code).name for each in results]


async def test_topic_has_leaders_when_its_creation_is_answered(memory):
    async with ControlledCluster(memory) as cluster:
        broker = await started(cluster, 1)
        (created,) = await create(broker, topic_entry("t", partitions=3, factor=1))
        assert created.error_code == 0
        (topic,) = await metadata(broker, "t")
        assert topic.topic_id == created.topic_id != ZERO_UUID
        assert [each.leader_id for each in topic.partitions] == [1, 1, 1]


async def test_topic_is_gone_when_its_deletion_is_answered(memory):
    async with ControlledCluster(memory) as cluster:
        broker = await started(cluster, 1)
        await create(broker, topic_entry("t"), topic_entry("u"))
        assert errors(await delete(broker, "t")) == ["NONE"]
        request = MetadataRequest(topics=None)
        assert [each.name for each in (await broker.ask(request, version=12)).topics] == ["u"]
        assert errors(await delete(broker, "t")) == ["UNKNOWN_TOPIC_OR_PARTITION"]


async def test_recreated_topic_has_another_id(memory):
    async with ControlledCluster(memory) as cluster:
        broker = await started(cluster, 1)
        (first,) = await create(broker, topic_entry("t", partitions=3, factor=1))
        await delete(broker, "t")
        await cluster.until_gone(paths.topic_to_delete("t"))
        (second,) = await create(broker, topic_entry("t", partitions=1, factor=1))
        (topic,) = await metadata(broker, "t")
        assert topic.topic_id == second.topic_id != first.topic_id
        assert len(topic.partitions) == 1


async def test_partitions_are_added_to_a_topic(memory):
    async with ControlledCluster(memory) as cluster:
        broker = await started(cluster, 1)
        await create(broker, topic_entry("t", partitions=1, factor=1))
        request = CreatePartitionsRequest(
            topics=[growth_entry("t", count=3), growth_entry("x", count=3)],
            timeout_ms=TIMEOUT_MS,
            validate_only=False,
        )
        response = await broker.ask(request, version=3)
        assert errors(response.results) == ["NONE", "UNKNOWN_TOPIC_OR_PARTITION"]
        (topic,) = await metadata(broker, "t")
        assert [each.leader_id for each in topic.partitions] == [1, 1, 1]


async def test_metadata_request_creates_the_topic(memory):
    async with ControlledCluster(memory) as cluster:
        broker = await started(cluster, 1)
        assert errors(await metadata(broker, "t")) == ["LEADER_NOT_AVAILABLE"]
        assert await broker.cluster.wait_for_leaders({"t": [0, 1]}, timeout_s=10) == set()
        (topic,) = await metadata(broker, "t")
        assert [each.leader_id for each in topic.partitions] == [1, 1]


async def test_each_invalid_topic_is_rejected_independently(memory):
    async with ControlledCluster(memory) as cluster:
        broker = await started(cluster, 1)
        await create(broker, topic_entry("a.b"))
        results = await create(
            broker,
            topic_entry("a.b"),
            topic_entry("a_b"),
            topic_entry("a b"),
            topic_entry("r", partitions=1, factor=2),
            topic_entry("p", partitions=0, factor=1),
            topic_entry("c", config={"no.such": "1"}),
            topic_entry("d", config={"retention.ms": None}),
            topic_entry("e", partitions=1, factor=1, replicas={0: [1]}),
            topic_entry("f", replicas={1: [1]}),
            topic_entry("g"),
        )
        assert errors(results) == [
            "TOPIC_ALREADY_EXISTS",
            "INVALID_TOPIC_EXCEPTION",
            "INVALID_TOPIC_EXCEPTION",
            "INVALID_REPLICATION_FACTOR",
            "INVALID_PARTITIONS",
            "INVALID_CONFIG",
            "INVALID_CONFIG",
            "INVALID_REQUEST",
            "INVALID_REPLICA_ASSIGNMENT",
            "NONE",
        ]


async def test_every_broker_sees_a_created_topic(memory):
    async with ControlledCluster(memory) as cluster:
        first, second = await started(cluster, 1), await started(cluster, 2)
        await cluster.until(lambda: first.cluster.is_alive(2))
        await create(first, topic_entry("t", replicas={0: [2, 1]}))
        assert await second.cluster.wait_for_leaders({"t": [0]}, timeout_s=10) == set()
        request = DescribeTopicPartitionsRequest(topics=[])
        (topic,) = (await second.ask(request, version=0)).topics
        assert (topic.name, topic.partitions[0].leader_id) == ("t", 2)
        cluster_request = DescribeClusterRequest(include_cluster_authorized_operations=False)
        described = await second.ask(cluster_request, version=1)
        assert described.controller_id == 1
        assert [each.broker_id for each in described.brokers] == [1, 2]


async def test_only_the_active_controller_changes_topics(memory):
    async with ControlledCluster(memory) as cluster:
        await started(cluster, 1)
        other = await started(cluster, 2)
        assert errors(await create(other, topic_entry("t"))) == ["NOT_CONTROLLER"]
        assert errors(await delete(other, "t")) == ["NOT_CONTROLLER"]
        create_request = CreatePartitionsRequest(
            topics=[growth_entry("t", count=3)], timeout_ms=1, validate_only=False
        )
        assert errors((await other.ask(create_request, version=3)).results) == ["NOT_CONTROLLER"]
        for request in (
            AlterPartitionReassignmentsRequest(topics=[]),
            ListPartitionReassignmentsRequest(),
        ):
            response = await other.ask(request, version=0)
            assert response.error_code == ErrorCode.NOT_CONTROLLER.code


async def test_any_broker_creates_a_topic_on_a_metadata_request(memory):
    async with ControlledCluster(memory) as cluster:
        await started(cluster, 1)
        other = await started(cluster, 2)
        assert errors(await metadata(other, "t")) == ["LEADER_NOT_AVAILABLE"]
        assert await other.cluster.wait_for_leaders({"t": [0, 1]}, timeout_s=10) == set()


async def test_preferred_leader_leads_when_its_election_is_answered(memory):
    async with ControlledCluster(memory) as cluster:
        broker = await started(cluster, 1)
        await started(cluster, 2)
        await cluster.until(lambda: broker.cluster.is_alive(2))
        await create(broker, topic_entry("t", replicas={0: [1, 2]}))
        await reassign(broker, "t", 0, [2, 1])
        assert broker.cluster.partition("t", 0).leader == 1
        partition = ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0, 7])
        request = ElectLeadersRequest(topic_partitions=[partition], timeout_ms=TIMEOUT_MS)
        (topic,) = (await broker.ask(request, version=2)).replica_election_results
        outcomes = {
            each.partition_id: ErrorCode.for_code(each.error_code).name
            for each in topic.partition_result
        }
        assert outcomes == {0: "NONE", 7: "UNKNOWN_TOPIC_OR_PARTITION"}
        assert broker.cluster.partition("t", 0).leader == 2
