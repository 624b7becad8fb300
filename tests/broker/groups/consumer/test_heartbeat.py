"""Tests of broker/groups/consumer/heartbeat.py and target.py."""

import pytest

from odradek.broker.groups.consumer import records
from odradek.broker.groups.consumer.group import GroupState
from odradek.broker.groups.consumer.member import MemberState
from odradek.broker.groups.consumer.records import from_stored
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


def kinds(scene, since=0):
    return [type(from_stored(*each).key).__name__ for each in scene.log[since:]]


def test_the_first_member_gets_everything_at_once(scene):
    told = scene.join("m1", "a")
    assert (told.member_id, told.epoch, told.assigned) == ("m1", 1, of("a", 0, 1, 2, 3))
    assert scene.group.state is GroupState.STABLE
    assert kinds(scene) == [
        "ConsumerGroupMemberMetadataKey",
        "ConsumerGroupMetadataKey",
        "ConsumerGroupTargetAssignmentMemberKey",
        "ConsumerGroupTargetAssignmentMetadataKey",
        "ConsumerGroupCurrentMemberAssignmentKey",
    ]


def test_a_heartbeat_that_says_nothing_new_writes_nothing_and_is_told_nothing(scene):
    scene.join("m1", "a")
    before = len(scene.log)
    assert scene.heartbeat("m1", 1).assigned is None
    assert len(scene.log) == before


def test_a_full_heartbeat_is_told_everything(scene):
    scene.join("m1", "a")
    full = {"rebalance_timeout_ms": 5_000, "names": frozenset("a"), "owned": of("a", 0)}
    assert scene.heartbeat("m1", 1, **full).assigned == of("a", 0, 1, 2, 3)


def test_a_second_member_waits_until_the_first_has_given_up(scene):
    scene.join("m1", "a")
    assert scene.join("m2", "a").assigned == frozenset()
    assert scene.member("m2").current.state is MemberState.UNRELEASED_PARTITIONS

    assert scene.heartbeat("m1", 1).assigned == of("a", 0, 1)
    assert scene.member("m1").current.state is MemberState.UNREVOKED_PARTITIONS
    assert scene.heartbeat("m2", 2).assigned is None

    assert scene.heartbeat("m1", 1, owned=of("a", 0, 1)).epoch == 2
    assert scene.heartbeat("m2", 2).assigned == of("a", 2, 3)
    assert scene.group.state is GroupState.STABLE


def test_a_new_subscription_raises_the_epoch(scene):
    scene.join("m1", "a")
    told = scene.heartbeat("m1", 1, names=frozenset({"a", "b"}))
    assert (told.epoch, told.assigned) == (2, of("a", 0, 1, 2, 3) | of("b", 0, 1))


def test_another_client_id_is_noted_and_raises_nothing(scene):
    scene.join("m1", "a", rack_id="r1")
    before = len(scene.log)
    assert scene.heartbeat("m1", 1, rack_id="r2").epoch == 1
    assert kinds(scene, before) == ["ConsumerGroupMemberMetadataKey"]


@pytest.mark.parametrize("count", [5, 0])
def test_a_topic_that_grows_or_goes_raises_the_epoch_with_the_next_heartbeat(scene, count):
    scene.join("m1", "a")
    scene.set_topic("a", count)
    assert scene.heartbeat("m1", 1, owned=of("a")).epoch == 2
    assert scene.group.epoch == 2


def test_a_topic_that_comes_raises_the_epoch_of_those_who_wait_for_it(scene):
    scene.join("m1", "later")
    scene.set_topic("later", 1)
    told = scene.heartbeat("m1", 1)
    assert (told.epoch, told.assigned) == (2, of("later", 0))


def test_other_topics_raise_nothing(scene):
    scene.join("m1", "a")
    scene.set_topic("b", 5)
    scene.set_topic("c", 5)
    assert scene.heartbeat("m1", 1).epoch == 1


def test_a_loaded_group_whose_topics_are_the_same_stays_in_its_epoch(scene):
    scene.join("m1", "a")
    scene.reload()
    before = len(scene.log)
    assert scene.heartbeat("m1", 1).epoch == 1
    assert len(scene.log) == before


def test_what_older_brokers_wrote_of_topics_is_deleted_with_the_next_epoch(scene):
    scene.group.has_partition_metadata = True
    scene.join("m1", "a")
    deleted = [from_stored(*each) for each in scene.log if each[1] is None]
    assert [each.key for each in deleted] == [ConsumerGroupPartitionMetadataKey(group_id=GROUP)]


def test_nobody_joins_a_full_group():
    scene = GroupScene({"a": 4}, members_max=1)
    scene.join("m1", "a")
    with pytest.raises(GroupMaxSizeReached):
        scene.join("m2", "a")
    assert scene.heartbeat("m1", 1).epoch == 1


def test_what_another_broker_gave_to_two_is_given_to_one(scene):
    for member in ("first", "second"):
        scene.join(member, "a")
    # A classic leader may do so, and its group be upgraded elsewhere.
    for member in ("first", "second"):
        scene.write([records.target_member(GROUP, member, of("a", 0, 1))])
    scene.join("third", "a")
    given = [place for each in scene.group.target.values() for place in each]
    assert len(given) == len(set(given)) == 4


def test_most_members_choose_the_assignor(scene):
    scene.join("m1", "a", "b", assignor="range")
    scene.join("m2", "a", "b", assignor="range")
    assert scene.group.target["m1"] == of("a", 0, 1) | of("b", 0)


# Who it is


def test_a_member_that_is_not_known_must_join(scene):
    scene.join("m1", "a")
    with pytest.raises(UnknownMemberId):
        scene.heartbeat("m2", 1)


def test_a_later_epoch_than_its_own_fences_a_member(scene):
    scene.join("m1", "a")
    with pytest.raises(FencedMemberEpoch, match="in epoch 1, not 2"):
        scene.heartbeat("m1", 2)


def test_the_epoch_before_is_good_if_its_partitions_are(scene):
    scene.join("m1", "a")
    scene.heartbeat("m1", 1, names=frozenset({"a", "b"}))
    assert scene.heartbeat("m1", 1, owned=of("a", 0)).epoch == 2
    for owned in (None, of("c", 0)):
        with pytest.raises(FencedMemberEpoch):
            scene.heartbeat("m1", 1, owned=owned)


def test_an_epoch_long_past_fences_even_who_joins(scene):
    scene.join("m1", "a")
    scene.heartbeat("m1", 1, names=frozenset("b"), owned=frozenset())
    with pytest.raises(FencedMemberEpoch):
        scene.join("m1", "b")


def test_joining_again_before_anything_else_is_joining(scene):
    assert scene.join("m1", "a") == scene.join("m1", "a")


# Static members


def test_an_instance_that_has_not_left_is_not_taken_over(scene):
    scene.join("m1", "a", instance_id="i")
    with pytest.raises(UnreleasedInstanceId):
        scene.join("m2", "a", instance_id="i")


def test_a_static_member_comes_back_under_another_id_without_a_rebalance(scene):
    scene.join("m1", "a", instance_id="i")
    assert scene.heartbeat("m1", -2, instance_id="i").epoch == -2
    assert scene.group.state is GroupState.RECONCILING
    told = scene.join("m2", "a", instance_id="i")
    assert (told.epoch, told.assigned) == (1, of("a", 0, 1, 2, 3))
    assert list(scene.group.members) == ["m2"]
    assert scene.group.epoch == 1


def test_a_static_member_that_comes_back_with_another_subscription_is_a_new_epoch(scene):
    scene.join("m1", "a", instance_id="i")
    scene.heartbeat("m1", -2, instance_id="i")
    assert scene.join("m2", "b", instance_id="i").assigned == of("b", 0, 1)
    assert scene.group.epoch == 2


def test_partitions_of_a_static_member_that_is_away_are_held(scene):
    scene.join("m1", "a", instance_id="i")
    scene.heartbeat("m1", -2, instance_id="i")
    assert scene.join("m2", "a").assigned == frozenset()


def test_the_former_id_of_a_static_member_is_fenced(scene):
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


def test_an_expression_is_resolved_at_once_and_kept(scene):
    told = scene.join("m1", expression="[ab]")
    assert told.assigned == of("a", 0, 1, 2, 3) | of("b", 0, 1)
    assert scene.group.expressions["[ab]"].topics == {"a", "b"}


def test_an_expression_follows_topics_that_come_and_go(scene):
    scene.join("m1", expression="b.*")
    scene.set_topic("b2", 1)
    assert scene.heartbeat("m1", 1).assigned == of("b", 0, 1) | of("b2", 0)
    scene.set_topic("b", 0)
    assert scene.heartbeat("m1", 2, owned=of("b2", 0)).assigned == of("b2", 0)


def test_names_and_an_expression_add_up(scene):
    assert scene.join("m1", "a", expression="b").assigned == of("a", 0, 1, 2, 3) | of("b", 0, 1)


def test_an_expression_that_nobody_uses_any_more_is_forgotten(scene):
    scene.join("m1", expression="a")
    scene.join("m2", expression="b")
    scene.heartbeat("m1", 1, expression="")
    assert set(scene.group.expressions) == {"b"}
    scene.heartbeat("m2", -1)
    assert not scene.group.expressions


def test_a_senseless_expression_is_refused_and_changes_nothing(scene):
    scene.join("m1", "a")
    before = len(scene.log)
    with pytest.raises(InvalidRegularExpression):
        scene.heartbeat("m1", 1, expression="(")
    assert len(scene.log) == before
    assert scene.member("m1").subscription.expression == ""
