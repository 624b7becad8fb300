"""The response for a topic in Metadata."""

import pytest

from odradek.broker.metadata.authorized_operations import (
    AUTHORIZED_OPERATIONS_OMITTED,
    TOPIC_OPERATIONS,
)
from odradek.broker.metadata.topic_metadata import (
    PartitionResponse,
    TopicMetadataOptions,
    topic_response,
)
from odradek.protocol.error_codes import ErrorCode
from tests.support.metadata_updates import (
    INSIDE,
    OUTSIDE,
    cluster,
    live_broker,
    state,
    topic_id,
    update,
)


def build_topic(metadata_cache, name="t", options=None):
    options = options or TopicMetadataOptions.for_version(12, INSIDE)
    return topic_response(metadata_cache.topic(name), metadata_cache.snapshot.brokers, options)


def build_partition(partition, *, version=12, listener=INSIDE, brokers=None):
    metadata_cache = cluster(update({"t": [partition]}, brokers=brokers))
    (only,) = build_topic(
        metadata_cache, options=TopicMetadataOptions.for_version(version, listener)
    ).partitions
    return only


def test_topic_has_its_partitions():
    metadata_cache = cluster(update({"t": [state(0, offline=[2]), state(1, leader=2, isr=[2])]}))
    topic = build_topic(metadata_cache)
    assert (topic.error_code, topic.name, topic.topic_id) == (0, "t", topic_id("t"))
    assert not topic.is_internal
    assert topic.partitions == [
        PartitionResponse(
            error_code=0,
            partition_index=0,
            leader_id=1,
            leader_epoch=5,
            replica_nodes=[1, 2],
            isr_nodes=[1, 2],
            offline_replicas=[2],
        ),
        PartitionResponse(
            error_code=0,
            partition_index=1,
            leader_id=2,
            leader_epoch=5,
            replica_nodes=[1, 2],
            isr_nodes=[2],
            offline_replicas=[],
        ),
    ]


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_are_marked(name):
    assert build_topic(cluster(update({name: [state()]})), name).is_internal


@pytest.mark.parametrize("leader", [-1, 3])
@pytest.mark.parametrize("version", [0, 1, 5, 6, 12])
def test_leader_that_is_not_alive_is_not_available(leader, version):
    partition = build_partition(state(leader=leader), version=version)
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE.code
    assert partition.leader_id == -1
    assert partition.leader_epoch == 5


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (0, ErrorCode.LEADER_NOT_AVAILABLE),
        (5, ErrorCode.LEADER_NOT_AVAILABLE),
        (6, ErrorCode.LISTENER_NOT_FOUND),
        (12, ErrorCode.LISTENER_NOT_FOUND),
    ],
)
def test_leader_without_the_listener_of_the_client_is_an_error(version, error):
    brokers = [live_broker(1), live_broker(2, listeners=[INSIDE, OUTSIDE])]
    partition = build_partition(state(), version=version, listener=OUTSIDE, brokers=brokers)
    assert (partition.error_code, partition.leader_id) == (error.code, -1)


def test_replicas_that_are_not_alive_are_included():
    partition = build_partition(state(replicas=[1, 3], isr=[1, 3]), version=1)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1, 3], [1, 3])
    assert partition.error_code == 0


@pytest.mark.parametrize(("isr", "isr_nodes"), [([1], [1]), ([1, 3], [1])])
def test_version_0_omits_replicas_that_are_not_alive(isr, isr_nodes):
    partition = build_partition(state(replicas=[1, 3], isr=isr), version=0)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1], isr_nodes)
    assert partition.error_code == ErrorCode.REPLICA_NOT_AVAILABLE.code


def test_version_0_reports_a_missing_leader_before_a_missing_replica():
    partition = build_partition(state(leader=3, replicas=[1, 3]), version=0)
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE.code
    assert partition.replica_nodes == [1]


def test_version_0_does_not_affect_other_versions():
    metadata_cache = cluster(update({"t": [state(replicas=[1, 3])]}))
    build_topic(metadata_cache, options=TopicMetadataOptions.for_version(0, INSIDE))
    assert build_topic(metadata_cache).partitions[0].replica_nodes == [1, 3]


def test_authorized_operations_are_sent_on_request():
    metadata_cache = cluster(update({"t": [state()]}))
    assert build_topic(metadata_cache).topic_authorized_operations == AUTHORIZED_OPERATIONS_OMITTED
    options_with_operations = TopicMetadataOptions.for_version(12, INSIDE, TOPIC_OPERATIONS)
    assert (
        build_topic(metadata_cache, options=options_with_operations).topic_authorized_operations
        == 0b1101_1111_1000
    )


def test_response_of_an_unchanged_topic_is_cached():
    metadata_cache = cluster(update({"t": [state()]}))
    before = build_topic(metadata_cache)
    metadata_cache.update(update({"u": [state()]}))
    assert build_topic(metadata_cache) is before


def test_response_of_a_changed_topic_is_built_again():
    metadata_cache = cluster(update({"t": [state()]}))
    build_topic(metadata_cache)
    metadata_cache.update(update({"t": [state(leader=2)]}))
    assert build_topic(metadata_cache).partitions[0].leader_id == 2


def test_partitions_of_a_removed_broker_have_no_leader():
    metadata_cache = cluster(update({"t": [state()]}))
    build_topic(metadata_cache)
    metadata_cache.update(update(brokers=[live_broker(2)]))
    assert build_topic(metadata_cache).partitions[0].leader_id == -1
