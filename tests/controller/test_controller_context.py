"""Tests of controller/controller_context.py."""

from odradek.controller.controller_context import (
    NO_EPOCH,
    Broker,
    ControllerContext,
    PartitionAndReplica,
)
from odradek.controller.leader_and_isr import EPOCH_DURING_DELETE, LeaderIsrAndControllerEpoch
from odradek.controller.partition_state import PartitionState
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.replica_state import ReplicaState
from odradek.protocol.types import TopicPartition
from tests.support.controller_scene import registration, topic_id

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def leadership_of(leader, epoch=3):
    return LeaderIsrAndControllerEpoch(
        leader, epoch, (leader,), controller_epoch=1, partition_epoch=0
    )


def new_context():
    context = ControllerContext()
    for broker in (1, 2, 3):
        context.brokers[broker] = Broker(broker, 100 + broker, registration(broker))
    for topic, assignments in (("t", [(1, 2), (2, 3)]), ("u", [(3,)])):
        context.add_topic(topic, topic_id(topic))
        for number, replicas in enumerate(assignments):
            partition = TopicPartition(topic, number)
            context.update_assignment(partition, ReplicaAssignment(replicas))
            context.put_partition_state(partition, PartitionState.ONLINE)
            context.partition_leadership_info[partition] = leadership_of(replicas[0])
            for replica in context.replicas_for_partition(partition):
                context.replica_states[replica] = ReplicaState.ONLINE
    return context


# Brokers


def test_shutting_down_broker_is_not_live_but_still_reachable():
    context = new_context()
    context.shutting_down_broker_ids.add(2)
    assert context.live_broker_ids == {1, 3}
    assert context.online_replicas(T0) == [1]
    assert context.is_replica_online_or_shutting_down(2, T0)
    assert not context.is_replica_online(2, T0)


def test_offline_log_dir_affects_only_its_partitions():
    context = new_context()
    context.replicas_on_offline_dirs[2] = {T0}
    assert not context.is_replica_online_or_shutting_down(2, T0)
    assert context.is_replica_online(2, T1)


def test_removed_broker_has_no_online_replicas():
    context = new_context()
    context.shutting_down_broker_ids.add(2)
    context.replicas_on_offline_dirs[2] = {T0}
    context.remove_broker(2)
    context.remove_broker(2)
    assert context.online_replicas(T0) == [1]
    assert not context.is_replica_online_or_shutting_down(2, T1)
    assert (context.shutting_down_broker_ids, context.replicas_on_offline_dirs) == (set(), {})


# Topics


def test_topic_is_found_by_name_and_by_id():
    context = new_context()
    assert "t" in context
    assert context.topic_names[topic_id("t")] == "t"
    assert [*context.topics] == ["t", "u"]
    assert [*context.partitions] == [T0, T1, U0]
    assert context.has_partition(T1)
    assert not context.has_partition(TopicPartition("t", 2))
    assert not context.has_partition(TopicPartition("x", 0))


def test_topic_without_id_can_receive_one_later():
    context = new_context()
    context.add_topic("old", None)
    assert "old" not in context.topic_ids
    context.add_topic("old", topic_id("old"))
    assert context.topic_ids["old"] == topic_id("old")


def test_remove_topic_removes_all_its_state():
    context = new_context()
    context.put_partition_state(T0, PartitionState.OFFLINE)
    context.partitions_being_reassigned.add(T0)
    for topics in (
        context.topics_to_be_deleted,
        context.topics_with_deletion_started,
        context.topics_ineligible_for_deletion,
    ):
        topics.add("t")
    context.remove_topic("t")
    context.remove_topic("never known")
    expected = ControllerContext()
    expected.brokers = context.brokers
    expected.add_topic("u", topic_id("u"))
    expected.update_assignment(U0, ReplicaAssignment((3,)))
    expected.put_partition_state(U0, PartitionState.ONLINE)
    expected.replica_states[PartitionAndReplica(U0, 3)] = ReplicaState.ONLINE
    expected.partition_leadership_info[U0] = leadership_of(3)
    assert "t" not in context
    assert context.replicas_on_broker(2) == []
    for name in vars(expected).keys() - {"_partitions_by_broker"}:
        assert getattr(context, name) == getattr(expected, name), name


# Replicas


def test_replicas_are_found_by_partition_topic_broker_and_state():
    context = new_context()
    assert context.replicas_for_partition(T0) == [
        PartitionAndReplica(T0, 1),
        PartitionAndReplica(T0, 2),
    ]
    assert len(context.replicas_for_topic("t")) == 4
    assert context.replicas_on_broker(2) == [PartitionAndReplica(T0, 2), PartitionAndReplica(T1, 2)]
    assert context.replicas_on_broker(9) == []
    assert context.replicas_in_state("t", ReplicaState.ONLINE) == context.replicas_for_topic("t")
    assert context.replicas_in_state("t", ReplicaState.NEW) == []


def test_update_assignment_moves_the_replicas():
    context = new_context()
    context.update_assignment(T0, ReplicaAssignment((3, 1)))
    assert context.assignment(T0) == ReplicaAssignment((3, 1))
    assert context.replicas_on_broker(2) == [PartitionAndReplica(T1, 2)]
    assert PartitionAndReplica(T0, 3) in context.replicas_on_broker(3)


def test_unknown_partition_has_an_empty_assignment():
    assert new_context().assignment(TopicPartition("x", 0)) == ReplicaAssignment(())


# States and leaders


def test_unknown_partition_and_replica_are_non_existent():
    context = ControllerContext()
    assert context.partition_state(T0) is PartitionState.NON_EXISTENT
    assert context.replica_state(PartitionAndReplica(T0, 1)) is ReplicaState.NON_EXISTENT


def test_new_and_offline_partitions_wait_for_a_leader():
    context = new_context()
    for state in PartitionState:
        context.put_partition_state(T0, state)
        is_without_leader = state in (PartitionState.NEW, PartitionState.OFFLINE)
        assert [*context.new_or_offline_partitions] == ([T0] if is_without_leader else []), state


def test_stop_replica_uses_the_current_leader_epoch():
    context = new_context()
    assert context.stop_replica_leader_epoch(T0) == 3
    assert context.stop_replica_leader_epoch(TopicPartition("x", 0)) == NO_EPOCH
    context.topics_to_be_deleted.add("t")
    assert context.stop_replica_leader_epoch(T0) == EPOCH_DURING_DELETE


def test_partition_leaders_on_broker_excludes_single_replica_partitions():
    context = new_context()
    assert context.partition_leaders_on_broker(1) == [T0]
    assert context.partition_leaders_on_broker(3) == [], "it has the only replica"
    context.topics_to_be_deleted.add("t")
    assert context.partition_leaders_on_broker(1) == []


def test_partition_with_offline_leader_is_found():
    context = new_context()
    assert context.partitions_with_offline_leader(context.partition_leadership_info) == []
    context.remove_broker(2)
    context.replicas_on_offline_dirs[3] = {U0}
    assert context.partitions_with_offline_leader(context.partition_leadership_info) == [T1, U0]
    context.topics_to_be_deleted.add("t")
    assert context.partitions_with_offline_leader(context.partition_leadership_info) == [U0]
    assert (context.leader(T0), context.leader(TopicPartition("x", 0))) == (1, None)
