"""Tests of broker/groups/consumer/leaving.py."""

import pytest

from odradek.broker.groups.consumer.group import GroupState
from odradek.protocol.errors import FencedInstanceId, UnknownMemberId
from tests.support.consumer_group_scene import GroupScene, of


@pytest.fixture
def scene():
    scene = GroupScene({"a": 2})
    scene.join("m1", "a")
    scene.join("m2", "a")
    return scene


def test_what_a_member_held_is_free_when_it_has_left(scene):
    told = scene.heartbeat("m1", -1)
    assert (told.member_id, told.epoch, told.assigned) == ("m1", -1, None)
    assert scene.group.epoch == 3
    assert scene.heartbeat("m2", 2).assigned == of("a", 0, 1)


def test_the_last_member_leaves_an_empty_group_behind(scene):
    scene.heartbeat("m1", -1)
    scene.heartbeat("m2", -1)
    assert scene.group.state is GroupState.EMPTY
    assert scene.group.metadata_hash == 0
    assert not scene.group.holders
    assert not scene.group.target


def test_a_member_that_is_not_heard_is_removed_like_one_that_leaves(scene):
    scene.expire("m1")
    assert scene.heartbeat("m2", 2).assigned == of("a", 0, 1)
    with pytest.raises(UnknownMemberId):
        scene.heartbeat("m1", 1)


def test_only_members_leave(scene):
    with pytest.raises(UnknownMemberId):
        scene.heartbeat("m3", -1)
    with pytest.raises(UnknownMemberId):
        scene.heartbeat("m1", -2, instance_id="i")


def test_a_static_member_may_leave_for_good(scene):
    scene.join("m3", "a", instance_id="i")
    with pytest.raises(FencedInstanceId):
        scene.heartbeat("m1", -1, instance_id="i")
    scene.heartbeat("m3", -1, instance_id="i")
    assert "m3" not in scene.group.members
    assert scene.group.static_member("i") is None


def test_who_goes_has_no_expression_matched_and_the_next_heartbeat_has(scene):
    """Of many topics that takes long, and nobody is there who could wait."""
    scene.join("m3", expression="b.*")
    scene.set_topic("b1", 1)
    for leaving in (lambda: scene.expire("m1"), lambda: scene.heartbeat("m2", -1)):
        leaving()
        assert scene.group.expressions["b.*"].topics == frozenset()
    assert scene.heartbeat("m3", 3).assigned == of("b1", 0)
