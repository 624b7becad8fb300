"""Tests of broker/metadata/topic_view.py."""

import pytest

from odradek.broker.metadata.authorized_operations import NOT_ASKED_FOR, ON_A_TOPIC
from odradek.broker.metadata.topic_view import ShownPartition, View, shown
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


def shown_topic(known, name="t", view=None):
    view = view or View.of_version(12, INSIDE)
    return shown(known.topic(name), known.picture.brokers, view)


def shown_partition(partition, *, version=12, listener=INSIDE, brokers=None):
    known = cluster(update({"t": [partition]}, brokers=brokers))
    (only,) = shown_topic(known, view=View.of_version(version, listener)).partitions
    return only


def test_a_topic_is_shown_with_its_partitions():
    known = cluster(update({"t": [state(0, offline=[2]), state(1, leader=2, isr=[2])]}))
    topic = shown_topic(known)
    assert (topic.error_code, topic.name, topic.topic_id) == (0, "t", topic_id("t"))
    assert not topic.is_internal
    assert topic.partitions == [
        ShownPartition(
            error_code=0,
            partition_index=0,
            leader_id=1,
            leader_epoch=5,
            replica_nodes=[1, 2],
            isr_nodes=[1, 2],
            offline_replicas=[2],
        ),
        ShownPartition(
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
def test_the_brokers_own_topics_are_internal(name):
    assert shown_topic(cluster(update({name: [state()]})), name).is_internal


@pytest.mark.parametrize("leader", [-1, 3])
@pytest.mark.parametrize("version", [0, 1, 5, 6, 12])
def test_a_leader_that_is_not_alive_is_not_available(leader, version):
    partition = shown_partition(state(leader=leader), version=version)
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
def test_a_leader_may_lack_the_clients_listener(version, error):
    brokers = [live_broker(1), live_broker(2, listeners=[INSIDE, OUTSIDE])]
    partition = shown_partition(state(), version=version, listener=OUTSIDE, brokers=brokers)
    assert (partition.error_code, partition.leader_id) == (error.code, -1)


def test_replicas_that_are_not_alive_are_shown():
    partition = shown_partition(state(replicas=[1, 3], isr=[1, 3]), version=1)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1, 3], [1, 3])
    assert partition.error_code == 0


@pytest.mark.parametrize(("isr", "left"), [([1], [1]), ([1, 3], [1])])
def test_in_the_first_version_they_are_missed(isr, left):
    partition = shown_partition(state(replicas=[1, 3], isr=isr), version=0)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1], left)
    assert partition.error_code == ErrorCode.REPLICA_NOT_AVAILABLE.code


def test_in_the_first_version_a_missing_leader_is_worse_than_a_missing_replica():
    partition = shown_partition(state(leader=3, replicas=[1, 3]), version=0)
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE.code
    assert partition.replica_nodes == [1]


def test_the_first_version_changes_nothing_for_the_others():
    known = cluster(update({"t": [state(replicas=[1, 3])]}))
    shown_topic(known, view=View.of_version(0, INSIDE))
    assert shown_topic(known).partitions[0].replica_nodes == [1, 3]


def test_operations_are_told_if_they_are_asked_for():
    known = cluster(update({"t": [state()]}))
    assert shown_topic(known).topic_authorized_operations == NOT_ASKED_FOR
    asking = View.of_version(12, INSIDE, ON_A_TOPIC)
    assert shown_topic(known, view=asking).topic_authorized_operations == 0b1101_1111_1000


def test_what_has_not_changed_is_shown_again():
    known = cluster(update({"t": [state()]}))
    before = shown_topic(known)
    known.update(update({"u": [state()]}))
    assert shown_topic(known) is before


def test_a_topic_that_has_changed_is_shown_as_it_is():
    known = cluster(update({"t": [state()]}))
    shown_topic(known)
    known.update(update({"t": [state(leader=2)]}))
    assert shown_topic(known).partitions[0].leader_id == 2


def test_when_a_broker_goes_its_partitions_have_no_leader():
    known = cluster(update({"t": [state()]}))
    shown_topic(known)
    known.update(update(brokers=[live_broker(2)]))
    assert shown_topic(known).partitions[0].leader_id == -1
