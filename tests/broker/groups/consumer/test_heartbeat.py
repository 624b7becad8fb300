"""Tests of broker/groups/consumer/heartbeat.py and target_assignment_builder.py."""

import pytest

from odradek.broker.groups.consumer import records
from odradek.broker.groups.consumer.group import ConsumerGroupState
from odradek.broker.groups.consumer.member import MemberState
from odradek.broker.groups.consumer.records import deserialize_record
from odradek.protocol.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    InvalidRegularExpression,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from odradek.protocol.internal.consumer_group_log import ConsumerGroupPartitionMetadataKey
from tests.support.consumer_group_scene import GROUP, GroupScene, of


@pytest.fixture
def scene():
    return GroupScene({"a": 4, "b": 2})


def record_types(scene, since=0):
    return [type(deserialize_record(*each).key).__name__ for each in scene.log[since:]]


def test_first_member_gets_all_partitions_at_once(scene):
    response = scene.join("m1", "a")
    assert (response.member_id, response.member_epoch, response.assigned) == (
        "m1",
        1,
        of("a", 0, 1, 2, 3),
    )
    assert scene.group.state is ConsumerGroupState.STABLE
    assert record_types(scene) == [
        "ConsumerGroupMemberMetadataKey",
        "ConsumerGroupMetadataKey",
        "ConsumerGroupTargetAssignmentMemberKey",
        "ConsumerGroupTargetAssignmentMetadataKey",
        "ConsumerGroupCurrentMemberAssignmentKey",
    ]


def test_heartbeat_without_changes_writes_and_returns_nothing(scene):
    scene.join("m1", "a")
    before = len(scene.log)
    assert scene.heartbeat("m1", 1).assigned is None
    assert len(scene.log) == before


def test_full_heartbeat_returns_the_assignment(scene):
    scene.join("m1", "a")
    full = {
        "rebalance_timeout_ms": 5_000,
        "subscribed_topic_names": frozenset("a"),
        "owned_partitions": of("a", 0),
    }
    assert scene.heartbeat("m1", 1, **full).assigned == of("a", 0, 1, 2, 3)


def test_second_member_waits_until_the_first_has_revoked(scene):
    scene.join("m1", "a")
    assert scene.join("m2", "a").assigned == frozenset()
    assert scene.member("m2").current_assignment.state is MemberState.UNRELEASED_PARTITIONS

    assert scene.heartbeat("m1", 1).assigned == of("a", 0, 1)
    assert scene.member("m1").current_assignment.state is MemberState.UNREVOKED_PARTITIONS
    assert scene.heartbeat("m2", 2).assigned is None

    assert scene.heartbeat("m1", 1, owned_partitions=of("a", 0, 1)).member_epoch == 2
    assert scene.heartbeat("m2", 2).assigned == of("a", 2, 3)
    assert scene.group.state is ConsumerGroupState.STABLE


def test_new_subscription_bumps_the_epoch(scene):
    scene.join("m1", "a")
    response = scene.heartbeat("m1", 1, subscribed_topic_names=frozenset({"a", "b"}))
    assert (response.member_epoch, response.assigned) == (2, of("a", 0, 1, 2, 3) | of("b", 0, 1))


def test_changed_rack_id_is_stored_without_a_new_epoch(scene):
    scene.join("m1", "a", rack_id="r1")
    before = len(scene.log)
    assert scene.heartbeat("m1", 1, rack_id="r2").member_epoch == 1
    assert record_types(scene, before) == ["ConsumerGroupMemberMetadataKey"]


@pytest.mark.parametrize("count", [5, 0])
def test_grown_or_deleted_topic_bumps_the_epoch_at_the_next_heartbeat(scene, count):
    scene.join("m1", "a")
    scene.set_topic("a", count)
    assert scene.heartbeat("m1", 1, owned_partitions=of("a")).member_epoch == 2
    assert scene.group.epoch == 2


def test_created_topic_bumps_the_epoch_of_its_subscribers(scene):
    scene.join("m1", "later")
    scene.set_topic("later", 1)
    response = scene.heartbeat("m1", 1)
    assert (response.member_epoch, response.assigned) == (2, of("later", 0))


def test_unsubscribed_topics_do_not_bump_the_epoch(scene):
    scene.join("m1", "a")
    scene.set_topic("b", 5)
    scene.set_topic("c", 5)
    assert scene.heartbeat("m1", 1).member_epoch == 1


def test_loaded_group_with_unchanged_topics_keeps_its_epoch(scene):
    scene.join("m1", "a")
    scene.reload()
    before = len(scene.log)
    assert scene.heartbeat("m1", 1).member_epoch == 1
    assert len(scene.log) == before


def test_partition_metadata_of_older_brokers_is_deleted_with_the_next_epoch(scene):
    scene.group.has_partition_metadata = True
    scene.join("m1", "a")
    deleted = [deserialize_record(*each) for each in scene.log if each[1] is None]
    assert [each.key for each in deleted] == [ConsumerGroupPartitionMetadataKey(group_id=GROUP)]


def test_full_group_rejects_new_members():
    scene = GroupScene({"a": 4}, members_max=1)
    scene.join("m1", "a")
    with pytest.raises(GroupMaxSizeReached):
        scene.join("m2", "a")
    assert scene.heartbeat("m1", 1).member_epoch == 1


def test_partition_assigned_twice_by_another_broker_gets_one_owner(scene):
    for member in ("first", "second"):
        scene.join(member, "a")
    # A classic leader may do so, and its group may be upgraded elsewhere.
    for member in ("first", "second"):
        scene.write([records.new_target_assignment_record(GROUP, member, of("a", 0, 1))])
    scene.join("third", "a")
    assigned = [partition for each in scene.group.target_assignment.values() for partition in each]
    assert len(assigned) == len(set(assigned)) == 4


def test_assignor_with_most_votes_is_used(scene):
    scene.join("m1", "a", "b", assignor="range")
    scene.join("m2", "a", "b", assignor="range")
    assert scene.group.target_assignment["m1"] == of("a", 0, 1) | of("b", 0)


# Member ids and epochs


def test_unknown_member_is_rejected(scene):
    scene.join("m1", "a")
    with pytest.raises(UnknownMemberId):
        scene.heartbeat("m2", 1)


def test_newer_member_epoch_is_fenced(scene):
    scene.join("m1", "a")
    with pytest.raises(FencedMemberEpoch, match="member epoch 1, the request has 2"):
        scene.heartbeat("m1", 2)


def test_previous_member_epoch_is_accepted_with_its_partitions(scene):
    scene.join("m1", "a")
    scene.heartbeat("m1", 1, subscribed_topic_names=frozenset({"a", "b"}))
    assert scene.heartbeat("m1", 1, owned_partitions=of("a", 0)).member_epoch == 2
    for owned in (None, of("c", 0)):
        with pytest.raises(FencedMemberEpoch):
            scene.heartbeat("m1", 1, owned_partitions=owned)


def test_old_member_epoch_fences_a_rejoin(scene):
    scene.join("m1", "a")
    scene.heartbeat("m1", 1, subscribed_topic_names=frozenset("b"), owned_partitions=frozenset())
    with pytest.raises(FencedMemberEpoch):
        scene.join("m1", "b")


def test_repeated_join_gets_the_same_response(scene):
    assert scene.join("m1", "a") == scene.join("m1", "a")


# Static members


def test_instance_id_in_use_is_rejected(scene):
    scene.join("m1", "a", instance_id="i")
    with pytest.raises(UnreleasedInstanceId):
        scene.join("m2", "a", instance_id="i")


def test_static_member_returns_with_a_new_member_id_without_a_rebalance(scene):
    scene.join("m1", "a", instance_id="i")
    assert scene.heartbeat("m1", -2, instance_id="i").member_epoch == -2
    assert scene.group.state is ConsumerGroupState.RECONCILING
    response = scene.join("m2", "a", instance_id="i")
    assert (response.member_epoch, response.assigned) == (1, of("a", 0, 1, 2, 3))
    assert list(scene.group.members) == ["m2"]
    assert scene.group.epoch == 1


def test_static_member_that_returns_with_another_subscription_bumps_the_epoch(scene):
    scene.join("m1", "a", instance_id="i")
    scene.heartbeat("m1", -2, instance_id="i")
    assert scene.join("m2", "b", instance_id="i").assigned == of("b", 0, 1)
    assert scene.group.epoch == 2


def test_static_member_that_is_away_keeps_its_partitions(scene):
    scene.join("m1", "a", instance_id="i")
    scene.heartbeat("m1", -2, instance_id="i")
    assert scene.join("m2", "a").assigned == frozenset()


def test_old_member_id_of_a_static_member_is_fenced(scene):
    scene.join("m1", "a", instance_id="i")
    scene.heartbeat("m1", -2, instance_id="i")
    with pytest.raises(FencedMemberEpoch):
        scene.heartbeat("m1", 1, instance_id="i")
    scene.join("m2", "a", instance_id="i")
    with pytest.raises(FencedInstanceId):
        scene.heartbeat("m1", 1, instance_id="i")
    with pytest.raises(UnknownMemberId):
        scene.heartbeat("m1", 1)
    with pytest.raises(UnknownMemberId):
        scene.heartbeat("m1", 1, instance_id="other")


# Regular expressions


def test_regex_is_resolved_at_once_and_stored(scene):
    response = scene.join("m1", expression="[ab]")
    assert response.assigned == of("a", 0, 1, 2, 3) | of("b", 0, 1)
    assert scene.group.resolved_regexes["[ab]"].topics == {"a", "b"}


def test_regex_follows_created_and_deleted_topics(scene):
    scene.join("m1", expression="b.*")
    scene.set_topic("b2", 1)
    assert scene.heartbeat("m1", 1).assigned == of("b", 0, 1) | of("b2", 0)
    scene.set_topic("b", 0)
    assert scene.heartbeat("m1", 2, owned_partitions=of("b2", 0)).assigned == of("b2", 0)


def test_topic_names_and_regex_are_combined(scene):
    assert scene.join("m1", "a", expression="b").assigned == of("a", 0, 1, 2, 3) | of("b", 0, 1)


def test_unused_regex_is_removed(scene):
    scene.join("m1", expression="a")
    scene.join("m2", expression="b")
    scene.heartbeat("m1", 1, subscribed_topic_regex="")
    assert set(scene.group.resolved_regexes) == {"b"}
    scene.heartbeat("m2", -1)
    assert not scene.group.resolved_regexes


def test_invalid_regex_is_rejected_without_a_change(scene):
    scene.join("m1", "a")
    before = len(scene.log)
    with pytest.raises(InvalidRegularExpression):
        scene.heartbeat("m1", 1, subscribed_topic_regex="(")
    assert len(scene.log) == before
    assert scene.member("m1").subscription.topic_regex == ""
