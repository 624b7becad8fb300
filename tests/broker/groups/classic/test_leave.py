"""LeaveGroup in classic groups."""

from tests.support.group_scene import GROUP


def test_leaving_member_starts_a_rebalance(scene):
    leader, follower = scene.stable(2)
    assert scene.leave(follower) == "NONE"
    assert scene.state == "PreparingRebalance"
    assert scene.join(leader).result.generation == 2


def test_group_without_members_is_empty_in_a_new_generation(scene):
    (only,) = scene.stable()
    assert scene.leave(only) == "NONE"
    assert scene.state == "Empty"
    assert scene.group.metadata.generation == 2
    assert scene.group.metadata.protocol is None


def test_empty_group_is_stored(scene):
    (only,) = scene.stable()
    scene.leave(only)
    scene.reload()
    assert scene.state == "Empty"
    assert scene.group.metadata.generation == 2


def test_unknown_member_cannot_leave(scene):
    assert scene.leave("stranger") == "UNKNOWN_MEMBER_ID"
    scene.stable()
    assert scene.leave("stranger") == "UNKNOWN_MEMBER_ID"


def test_static_member_is_removed_by_its_instance_id_alone(scene):
    scene.stable(instance_id="one")
    assert scene.leave("", instance_id="two") == "UNKNOWN_MEMBER_ID"
    assert scene.leave("", instance_id="one") == "NONE"
    assert scene.state == "Empty"


def test_waiting_join_of_a_removed_member_gets_an_error(scene):
    scene.stable()
    joining = scene.join(instance_id="one")
    assert scene.leave("", instance_id="one") == "NONE"
    assert joining.error == "UNKNOWN_MEMBER_ID"


def test_leader_that_leaves_is_replaced(scene):
    leader, follower = scene.stable(2)
    scene.leave(leader)
    assert scene.group.metadata.leader == follower


def test_empty_group_still_exists(scene):
    (only,) = scene.stable()
    scene.leave(only)
    assert GROUP in scene.shard.groups
