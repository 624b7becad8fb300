"""Tests of controller/context.py."""

from odradek.controller.assignment import Assignment
from odradek.controller.context import NO_EPOCH, Broker, Context, Replica
from odradek.controller.leadership import EPOCH_DURING_DELETE, Leadership
from odradek.controller.partition_state import PartitionState
from odradek.controller.replica_state import ReplicaState
from odradek.protocol.types import TopicPartition
from tests.support.controller_scene import registration, topic_id

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def led(leader, epoch=3):
    return Leadership(leader, epoch, (leader,), controller_epoch=1, partition_epoch=0)


def context():
    picture = Context()
    for broker in (1, 2, 3):
        picture.brokers[broker] = Broker(broker, 100 + broker, registration(broker))
    for topic, assignments in (("t", [(1, 2), (2, 3)]), ("u", [(3,)])):
        picture.add_topic(topic, topic_id(topic))
        for number, replicas in enumerate(assignments):
            partition = TopicPartition(topic, number)
            picture.assign(partition, Assignment(replicas))
            picture.move_partition(partition, PartitionState.ONLINE)
            picture.leaderships[partition] = led(replicas[0])
            for replica in picture.replicas_of(partition):
                picture.replica_states[replica] = ReplicaState.ONLINE
    return picture


# Brokers


def test_who_is_about_to_stop_leads_nothing_new_but_can_be_reached():
    picture = context()
    picture.shutting_down.add(2)
    assert picture.live_brokers == {1, 3}
    assert picture.online_replicas(T0) == [1]
    assert picture.is_reachable(2, T0)
    assert not picture.is_online(2, T0)


def test_a_failed_directory_takes_only_its_own_partitions():
    picture = context()
    picture.offline_replicas[2] = {T0}
    assert not picture.is_reachable(2, T0)
    assert picture.is_online(2, T1)


def test_who_is_not_registered_has_nothing_online():
    picture = context()
    picture.shutting_down.add(2)
    picture.offline_replicas[2] = {T0}
    picture.forget_broker(2)
    picture.forget_broker(2)
    assert picture.online_replicas(T0) == [1]
    assert not picture.is_reachable(2, T1)
    assert (picture.shutting_down, picture.offline_replicas) == (set(), {})


# Topics


def test_a_topic_is_known_by_its_name_and_its_id():
    picture = context()
    assert "t" in picture
    assert picture.topic_names[topic_id("t")] == "t"
    assert [*picture.topics] == ["t", "u"]
    assert [*picture.partitions] == [T0, T1, U0]
    assert picture.has_partition(T1)
    assert not picture.has_partition(TopicPartition("t", 2))
    assert not picture.has_partition(TopicPartition("x", 0))


def test_an_old_topic_is_given_its_id_later():
    picture = context()
    picture.add_topic("old", None)
    assert "old" not in picture.topic_ids
    picture.add_topic("old", topic_id("old"))
    assert picture.topic_ids["old"] == topic_id("old")


def test_of_a_forgotten_topic_nothing_is_known():
    picture = context()
    picture.move_partition(T0, PartitionState.OFFLINE)
    picture.reassigning.add(T0)
    for topics in (picture.to_delete, picture.deleting, picture.ineligible):
        topics.add("t")
    picture.forget_topic("t")
    picture.forget_topic("never known")
    expected = Context()
    expected.brokers = picture.brokers
    expected.add_topic("u", topic_id("u"))
    expected.assign(U0, Assignment((3,)))
    expected.move_partition(U0, PartitionState.ONLINE)
    expected.replica_states[Replica(U0, 3)] = ReplicaState.ONLINE
    expected.leaderships[U0] = led(3)
    assert "t" not in picture
    assert picture.replicas_on(2) == []
    for name in vars(expected).keys() - {"_by_broker"}:
        assert getattr(picture, name) == getattr(expected, name), name


# Replicas


def test_replicas_are_found_by_partition_by_topic_and_by_broker():
    picture = context()
    assert picture.replicas_of(T0) == [Replica(T0, 1), Replica(T0, 2)]
    assert len(picture.replicas_of_topic("t")) == 4
    assert picture.replicas_on(2) == [Replica(T0, 2), Replica(T1, 2)]
    assert picture.replicas_on(9) == []
    assert picture.replicas_in("t", ReplicaState.ONLINE) == picture.replicas_of_topic("t")
    assert picture.replicas_in("t", ReplicaState.NEW) == []


def test_another_assignment_moves_the_replicas():
    picture = context()
    picture.assign(T0, Assignment((3, 1)))
    assert picture.assignment(T0) == Assignment((3, 1))
    assert picture.replicas_on(2) == [Replica(T1, 2)]
    assert Replica(T0, 3) in picture.replicas_on(3)


def test_what_is_not_assigned_has_no_replicas():
    assert context().assignment(TopicPartition("x", 0)) == Assignment(())


# States and leaders


def test_what_was_never_seen_does_not_exist():
    picture = Context()
    assert picture.partition_state(T0) is PartitionState.NON_EXISTENT
    assert picture.replica_state(Replica(T0, 1)) is ReplicaState.NON_EXISTENT


def test_what_is_new_or_offline_waits_for_a_leader():
    picture = context()
    for state in PartitionState:
        picture.move_partition(T0, state)
        waits = state in (PartitionState.NEW, PartitionState.OFFLINE)
        assert [*picture.waiting_for_leader] == ([T0] if waits else []), state


def test_a_replica_is_stopped_in_the_epoch_of_its_leader():
    picture = context()
    assert picture.leader_epoch(T0) == 3
    assert picture.leader_epoch(TopicPartition("x", 0)) == NO_EPOCH
    picture.to_delete.add("t")
    assert picture.leader_epoch(T0) == EPOCH_DURING_DELETE


def test_a_broker_hands_over_what_others_can_lead():
    picture = context()
    assert picture.led_by(1) == [T0]
    assert picture.led_by(3) == [], "it has the only replica"
    picture.to_delete.add("t")
    assert picture.led_by(1) == []


def test_a_partition_is_without_leader_when_its_leader_is_not_online():
    picture = context()
    assert picture.without_leader(picture.leaderships) == []
    picture.forget_broker(2)
    picture.offline_replicas[3] = {U0}
    assert picture.without_leader(picture.leaderships) == [T1, U0]
    picture.to_delete.add("t")
    assert picture.without_leader(picture.leaderships) == [U0]
    assert (picture.leader(T0), picture.leader(TopicPartition("x", 0))) == (1, None)
