"""Leaving a classic group, and being made to."""

from tests.support.group_scene import GROUP


def test_the_others_rebalance_at_once(scene):
    leader, follower = scene.stable(2)
    assert scene.leave(follower) == "NONE"
    assert scene.state == "PreparingRebalance"
    assert scene.join(leader).result.generation == 2


def test_when_the_last_has_left_the_group_is_empty_in_another_generation(scene):
    (only,) = scene.stable()
    assert scene.leave(only) == "NONE"
    assert scene.state == "Empty"
    assert scene.group.roster.generation == 2
    assert scene.group.roster.protocol is None


def test_it_is_stored_that_the_group_is_empty(scene):
    (only,) = scene.stable()
    scene.leave(only)
    scene.reload()
    assert scene.state == "Empty"
    assert scene.group.roster.generation == 2


def test_a_stranger_cannot_leave(scene):
    assert scene.leave("stranger") == "UNKNOWN_MEMBER_ID"
    scene.stable()
    assert scene.leave("stranger") == "UNKNOWN_MEMBER_ID"


def test_a_static_member_is_removed_by_its_instance_alone(scene):
    scene.stable(instance_id="one")
    assert scene.leave("", instance_id="two") == "UNKNOWN_MEMBER_ID"
    assert scene.leave("", instance_id="one") == "NONE"
    assert scene.state == "Empty"


def test_whoever_waits_to_join_is_told_that_it_was_removed(scene):
    scene.stable()
    joining = scene.join(instance_id="one")
    assert scene.leave("", instance_id="one") == "NONE"
    assert joining.error == "UNKNOWN_MEMBER_ID"


def test_a_leader_that_leaves_is_followed_by_another(scene):
    leader, follower = scene.stable(2)
    scene.leave(leader)
    assert scene.group.roster.leader == follower


def test_a_group_that_was_left_is_still_there(scene):
    (only,) = scene.stable()
    scene.leave(only)
    assert GROUP in scene.shard.groups
