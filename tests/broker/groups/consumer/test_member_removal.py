"""Tests of broker/groups/consumer/member_removal.py."""

import pytest

from odradek.broker.groups.consumer.group import ConsumerGroupState
from odradek.protocol.errors import FencedInstanceId, UnknownMemberId
from tests.support.consumer_group_scene import GroupScene, of


@pytest.fixture
def scene():
    scene = GroupScene({"a": 2})
    scene.join("m1", "a")
    scene.join("m2", "a")
    return scene


def test_partitions_of_a_leaving_member_are_released(scene):
    response = scene.heartbeat("m1", -1)
    assert (response.member_id, response.member_epoch, response.assigned) == ("m1", -1, None)
    assert scene.group.epoch == 3
    assert scene.heartbeat("m2", 2).assigned == of("a", 0, 1)


def test_group_is_empty_after_its_last_member_leaves(scene):
    scene.heartbeat("m1", -1)
    scene.heartbeat("m2", -1)
    assert scene.group.state is ConsumerGroupState.EMPTY
    assert scene.group.metadata_hash == 0
    assert not scene.group.partition_owners
    assert not scene.group.target_assignment


def test_expired_member_is_removed_like_a_leaving_one(scene):
    scene.expire("m1")
    assert scene.heartbeat("m2", 2).assigned == of("a", 0, 1)
    with pytest.raises(UnknownMemberId):
        scene.heartbeat("m1", 1)


def test_unknown_member_cannot_leave(scene):
    with pytest.raises(UnknownMemberId):
        scene.heartbeat("m3", -1)
    with pytest.raises(UnknownMemberId):
        scene.heartbeat("m1", -2, instance_id="i")


def test_static_member_can_leave_permanently(scene):
    scene.join("m3", "a", instance_id="i")
    with pytest.raises(FencedInstanceId):
        scene.heartbeat("m1", -1, instance_id="i")
    scene.heartbeat("m3", -1, instance_id="i")
    assert "m3" not in scene.group.members
    assert scene.group.static_member("i") is None


def test_member_removal_leaves_regex_matching_to_the_next_heartbeat(scene):
    """Matching many topics takes long, and no request could wait for it."""
    scene.join("m3", expression="b.*")
    scene.set_topic("b1", 1)
    for remove in (lambda: scene.expire("m1"), lambda: scene.heartbeat("m2", -1)):
        remove()
        assert scene.group.resolved_regexes["b.*"].topics == frozenset()
    assert scene.heartbeat("m3", 3).assigned == of("b1", 0)
