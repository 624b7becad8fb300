"""Tests of broker/groups/consumer/classic_members.py."""

import pytest

from odradek.broker.groups.classic.messages import MemberProtocol
from tests.support.group_scene import SESSION_MS as CLASSIC_SESSION_MS
from tests.support.live_group_scene import subscribed
from tests.support.migrating_groups import heard, offering, told


@pytest.fixture
def scene(live_scene):
    return live_scene


def test_classic_member_without_id_gets_one(scene):
    scene.join("new", "a")
    response = scene.base.join(**offering("a"), requires_known_member_id=True)
    assert response.error == "MEMBER_ID_REQUIRED"
    assert response.result.member_id not in scene.live.group.members
    assert scene.base.join(response.result.member_id, **offering("a")).error == "NONE"


def test_expired_member_must_give_up_its_partitions_before_it_rejoins(scene):
    """Other members own its partitions by now, and it could commit for them once it is back."""
    scene.join("new", "a")
    late = scene.base.join("missed", **offering("a", owned={"a": [2]}))
    assert (late.error, set(scene.live.group.members)) == ("UNKNOWN_MEMBER_ID", {"new"})
    assert scene.base.join("missed", **offering("a")).error == "NONE"
    assert scene.base.join("missed", **offering("a", owned={"a": [2]})).error == "NONE"


def test_expired_member_that_keeps_naming_its_old_partitions_is_rejected_once(scene):
    """franz-go and librdkafka keep naming them; they would be rejected forever."""
    scene.join("new", "a")
    fields = offering("a", owned={"a": [2]})
    assert (
        scene.base.join("missed", **fields, requires_known_member_id=True).error
        == "UNKNOWN_MEMBER_ID"
    )
    response = scene.base.join("", **fields, requires_known_member_id=True)
    assert response.error == "MEMBER_ID_REQUIRED"
    assert (
        scene.base.join(response.result.member_id, **fields, requires_known_member_id=True).error
        == "NONE"
    )
    static = scene.base.join("", **fields, requires_known_member_id=True, instance_id="i")
    assert static.error == "NONE"


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol_type": "connect"},
        {"protocols": [MemberProtocol("sticky", subscribed("a"))]},
        {"protocols": []},
        {"protocols": [MemberProtocol("range", b"x")]},
    ],
)
def test_classic_member_needs_a_common_protocol(scene, fields):
    scene.join("new", "a")
    scene.base.join(**offering("a"))
    assert scene.base.join(**{**offering("a"), **fields}).error == "INCONSISTENT_GROUP_PROTOCOL"


def test_protocol_that_a_member_offers_twice_counts_once(scene):
    scene.join("new", "a")
    scene.base.join(**offering("a", names=("range", "range")))
    scene.base.join(**offering("a", names=("range", "sticky")))
    assert scene.base.join(**offering("a")).error == "NONE"
    assert scene.base.join(**offering("a", names=("sticky",))).error == (
        "INCONSISTENT_GROUP_PROTOCOL"
    )


def test_join_of_a_classic_member_leaves_regex_matching_to_the_next_heartbeat(scene):
    """Matching many topics takes long, and JoinGroup does not wait for it."""
    scene.join("new", subscribed_topic_regex="b.*")
    scene.set_topic("b1", 1)
    scene.base.join(**offering("a"))
    assert scene.live.group.resolved_regexes["b.*"].topics == frozenset()
    scene.beat("new", 1)
    assert scene.live.group.resolved_regexes["b.*"].topics == {"b1"}


def test_full_consumer_group_rejects_classic_members(new_live_scene):
    scene = new_live_scene(max_size=2)
    scene.join("new", "a")
    joined = scene.base.join(**offering("a"))
    assert joined.error == "NONE"
    assert scene.base.join(**offering("a")).error == "GROUP_MAX_SIZE_REACHED"
    assert scene.base.join(joined.result.member_id, **offering("a")).error == "NONE"
    assert len(scene.live.group.members) == 2


def test_consumer_member_cannot_use_the_classic_apis(scene):
    scene.join("new", "a")
    assert heard(scene, "new", 1) == "UNKNOWN_MEMBER_ID"
    assert scene.base.sync("new", generation=1).error == "UNKNOWN_MEMBER_ID"


def test_classic_member_with_another_generation_is_rejected(scene):
    scene.join("new", "a")
    member_id = scene.base.join(**offering("a")).result.member_id
    assert heard(scene, member_id, 77) == "ILLEGAL_GENERATION"
    assert scene.base.sync(member_id, generation=77).error == "ILLEGAL_GENERATION"
    assert (
        scene.base.sync(member_id, generation=2, protocol="sticky").error
        == "INCONSISTENT_GROUP_PROTOCOL"
    )


def test_sync_after_a_new_epoch_gets_rebalance_in_progress(scene):
    scene.join("new", "a")
    joined = scene.base.join(**offering("a")).result
    scene.join("newer", "a")
    assert (
        scene.base.sync(joined.member_id, generation=joined.generation).error
        == "REBALANCE_IN_PROGRESS"
    )


def test_classic_member_that_does_not_rejoin_in_time_is_removed(scene):
    scene.join("new", "a")
    joined = scene.base.join(**offering("a"), rebalance_ms=5_000).result
    scene.base.sync(joined.member_id, generation=joined.generation)
    scene.base.pass_ms(6_000)
    assert joined.member_id in scene.live.group.members
    scene.join("newer", "a")
    assert told(scene, joined.member_id) == "REBALANCE_IN_PROGRESS"
    scene.base.pass_ms(4_000)
    assert told(scene, joined.member_id) == "REBALANCE_IN_PROGRESS"
    scene.base.pass_ms(2_000)
    assert joined.member_id not in scene.live.group.members


def test_classic_member_that_does_not_sync_in_time_is_removed(scene):
    scene.join("new", "a")
    joined = scene.base.join(**offering("a"), rebalance_ms=5_000).result
    scene.base.pass_ms(4_000)
    assert joined.member_id in scene.live.group.members
    scene.base.pass_ms(2_000)
    assert joined.member_id not in scene.live.group.members


def test_classic_member_has_the_session_timeout_it_requested(scene):
    scene.join("new", "a")
    member_id = scene.base.join(**offering("a")).result.member_id
    scene.base.pass_ms(CLASSIC_SESSION_MS + 1)
    assert set(scene.live.group.members) == {"new"}
    assert heard(scene, member_id, 2) == "UNKNOWN_MEMBER_ID"


def test_members_are_removed_by_member_id_or_instance_id(scene):
    scene.join("new", "a", instance_id="i")
    member_id = scene.base.join(**offering("a")).result.member_id
    assert scene.base.leave("nobody") == "UNKNOWN_MEMBER_ID"
    assert scene.base.leave("", "j") == "UNKNOWN_MEMBER_ID"
    assert scene.base.leave(member_id) == "NONE"
    assert scene.base.leave("", "i") == "NONE"
    assert scene.live.is_empty
