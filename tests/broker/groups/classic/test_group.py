"""A classic group as a whole: its sessions, and what any group can tell."""

import pytest

from odradek.broker.groups.classic.outcomes import Offer
from odradek.broker.groups.classic.state import MOVES, GroupState, IllegalMove
from odradek.broker.groups.group import Committer
from odradek.broker.groups.offsets import NEVER, Commit
from odradek.protocol.errors import KafkaError
from tests.support.group_scene import EPOCH_MS, GROUP, SESSION_MS

COMMIT = Commit(5, -1, "", EPOCH_MS + 7, NEVER, 0)


def refusal(scene, member_id, generation, *, instance_id=None, is_transactional=False):
    committer = Committer(member_id, instance_id, generation)
    try:
        scene.group.check_commit(committer, is_transactional=is_transactional)
    except KafkaError as failure:
        return failure.error.name
    return "NONE"


class TestSessions:
    def test_a_member_that_is_not_heard_of_is_out(self, scene):
        leader, follower = scene.stable(2)
        scene.pass_ms(SESSION_MS - 1)
        scene.heartbeat(leader)
        scene.pass_ms(2)
        assert list(scene.group.roster.members) == [leader]
        assert scene.heartbeat(follower) == "UNKNOWN_MEMBER_ID"

    def test_a_heartbeat_keeps_it_for_another_session(self, scene):
        (member,) = scene.stable()
        for _ in range(10):
            scene.pass_ms(SESSION_MS - 1)
            assert scene.heartbeat(member) == "NONE"

    def test_a_commit_counts_as_one(self, scene):
        (member,) = scene.stable()
        for _ in range(10):
            scene.pass_ms(SESSION_MS - 1)
            assert refusal(scene, member, 1) == "NONE"
        assert scene.heartbeat(member) == "NONE"

    def test_whoever_waits_for_us_need_not_send_any(self, scene):
        leader, follower = scene.stable(2)
        waiting = scene.join(follower, topics=("other",))
        for _ in range(3):
            scene.pass_ms(SESSION_MS - 1)
            scene.heartbeat(leader)
        scene.join(leader)
        assert waiting.error == "NONE"
        scene.pass_ms(SESSION_MS - 1)
        assert scene.heartbeat(follower) == "NONE"

    def test_whoever_has_been_answered_has_one_session_and_no_more(self, scene):
        leader, follower = scene.stable(2)
        waiting = scene.join(follower, topics=("other",))
        for _ in range(3):
            scene.pass_ms(SESSION_MS - 1)
            scene.heartbeat(leader)
        scene.join(leader)
        assert waiting.error == "NONE"
        scene.pass_ms(SESSION_MS - 1)
        scene.heartbeat(leader)
        assert follower in scene.group.roster.members
        scene.pass_ms(2)
        assert list(scene.group.roster.members) == [leader]

    @pytest.mark.parametrize("generation", [0, 2, -1])
    def test_a_heartbeat_of_another_generation_is_refused(self, scene, generation):
        (member,) = scene.stable()
        assert scene.heartbeat(member, generation) == "ILLEGAL_GENERATION"

    def test_a_group_that_was_loaded_gives_each_a_whole_session(self, scene):
        (member,) = scene.stable()
        scene.pass_ms(SESSION_MS - 1)
        scene.reload()
        scene.pass_ms(SESSION_MS - 1)
        assert scene.heartbeat(member) == "NONE"
        scene.pass_ms(SESSION_MS + 1)
        assert scene.state == "Empty"


class TestCommits:
    def test_members_commit_in_their_generation(self, scene):
        (member,) = scene.stable()
        assert refusal(scene, member, 1) == "NONE"
        assert refusal(scene, member, 0) == "ILLEGAL_GENERATION"
        assert refusal(scene, "stranger", 1) == "UNKNOWN_MEMBER_ID"
        assert refusal(scene, member, 1, instance_id="one") == "UNKNOWN_MEMBER_ID"

    def test_nobody_else_does_while_there_are_members(self, scene):
        scene.stable()
        assert refusal(scene, "", -1) == "UNKNOWN_MEMBER_ID"
        assert refusal(scene, "", -1, is_transactional=True) == "NONE"

    def test_anybody_does_when_there_are_none(self, scene):
        (member,) = scene.stable()
        scene.leave(member)
        assert refusal(scene, "", -1) == "NONE"
        assert refusal(scene, member, 1) == "UNKNOWN_MEMBER_ID"

    def test_during_a_rebalance_until_all_have_joined(self, scene):
        leader, follower = scene.stable(2)
        scene.join(leader)
        assert refusal(scene, follower, 1) == "NONE"
        scene.join(follower)
        assert refusal(scene, follower, 2) == "REBALANCE_IN_PROGRESS"

    def test_of_a_static_member_only_the_newest(self, scene):
        (old,) = scene.stable(instance_id="one")
        scene.join(instance_id="one")
        assert refusal(scene, old, 1, instance_id="one") == "FENCED_INSTANCE_ID"


class TestUse:
    def test_offsets_of_a_stable_group_are_used_if_it_subscribes(self, scene):
        scene.stable(topics=("events",))
        group = scene.group
        assert group.unused_since("events", COMMIT) is None
        assert group.unused_since("other", COMMIT) == COMMIT.committed_ms
        assert (group.is_subscribed_to("events"), group.is_subscribed_to("other")) == (True, False)

    def test_those_of_an_empty_group_since_it_is_empty(self, scene):
        (member,) = scene.stable()
        scene.pass_ms(5000)
        scene.leave(member)
        assert scene.group.unused_since("events", COMMIT) == EPOCH_MS + scene.loop.now_ms()
        assert not scene.group.is_subscribed_to("events")

    def test_nobody_knows_what_a_group_of_another_type_needs(self, scene):
        scene.stable(protocol_type="connect")
        assert scene.group.is_subscribed_to("other")
        assert scene.group.unused_since("other", COMMIT) is None
        with pytest.raises(KafkaError) as refused:
            scene.group.check_offset_delete()
        assert refused.value.error.name == "NON_EMPTY_GROUP"

    def test_nor_what_one_needs_whose_members_speak_otherwise(self, scene):
        scene.stable(offers=[Offer("range", b"\xff")])
        assert scene.group.is_subscribed_to("other")
        assert scene.group.unused_since("other", COMMIT) is None


class TestEnd:
    def test_whoever_waits_is_told_to_look_for_another_coordinator(self, scene):
        _, follower = scene.stable(2)
        joining = scene.join(follower, topics=("other",))
        scene.shard.end()
        assert joining.error == "NOT_COORDINATOR"

    def test_and_whoever_waits_for_an_assignment(self, scene):
        joins = [scene.join(), scene.join()]
        scene.pass_ms(1)
        syncing = scene.sync(joins[1].result.member_id)
        scene.shard.end()
        assert syncing.error == "NOT_COORDINATOR"

    def test_no_timer_is_left(self, scene):
        scene.stable(2)
        scene.join(requires_id=True)
        scene.join()
        group = scene.group
        scene.shard.end()
        scene.pass_ms(10_000_000)
        assert group.roster.state is GroupState.DEAD

    def test_a_dead_group_answers_nothing(self, scene):
        (member,) = scene.stable()
        scene.group.end()
        assert scene.heartbeat(member) == "COORDINATOR_NOT_AVAILABLE"
        assert scene.join(member).error == "COORDINATOR_NOT_AVAILABLE"
        assert scene.sync(member).error == "COORDINATOR_NOT_AVAILABLE"
        assert scene.leave(member) == "COORDINATOR_NOT_AVAILABLE"
        assert refusal(scene, member, 1) == "COORDINATOR_NOT_AVAILABLE"


def test_a_group_that_was_loaded_too_large_rebalances(scene, new_scene):
    scene.stable(3)
    small = new_scene(max_size=2)
    small.log.batches, small.log.end_offset = scene.log.batches, scene.log.end_offset
    small.reload()
    assert small.state == "PreparingRebalance"


def test_a_reload_finds_what_there_was(scene):
    leader, follower = scene.stable(2)
    before = scene.group.roster.stored()
    scene.reload()
    assert scene.group.roster.stored() == before
    assert scene.state == "Stable"
    assert scene.sync(follower).result.assignment == follower.encode()
    assert scene.group.roster.leader == leader


def test_a_rebalance_that_was_under_way_is_lost_with_its_coordinator(scene):
    leader, follower = scene.stable(2)
    scene.join()
    scene.reload()
    assert scene.state == "Stable"
    assert scene.heartbeat(leader) == scene.heartbeat(follower) == "NONE"


@pytest.mark.parametrize("state", GroupState)
@pytest.mark.parametrize("target", GroupState)
def test_only_the_moves_of_the_table_are_made(scene, state, target):
    scene.join(requires_id=True)
    roster = scene.shard.groups[GROUP].roster
    roster.state = state
    if target in MOVES[state]:
        roster.move(target, now_ms=3)
        assert (roster.state, roster.state_since_ms) == (target, 3)
    else:
        with pytest.raises(IllegalMove):
            roster.move(target, now_ms=3)
    roster.state = GroupState.EMPTY
