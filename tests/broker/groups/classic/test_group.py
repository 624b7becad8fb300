"""A classic group as a whole: sessions, commits, offset use and unloading."""

import pytest

from odradek.broker.groups.classic.messages import MemberProtocol
from odradek.broker.groups.classic.state import (
    VALID_TRANSITIONS,
    ClassicGroupState,
    IllegalTransition,
)
from odradek.broker.groups.group import Committer
from odradek.broker.groups.offsets import NO_EXPIRE_TIMESTAMP, OffsetAndMetadata
from odradek.protocol.errors import KafkaError
from tests.support.group_scene import EPOCH_MS, GROUP, SESSION_MS

COMMIT = OffsetAndMetadata(5, -1, "", EPOCH_MS + 7, NO_EXPIRE_TIMESTAMP, 0)


def commit_error(scene, member_id, generation, *, instance_id=None, is_transactional=False):
    committer = Committer(member_id, instance_id, generation)
    try:
        scene.group.validate_offset_commit(committer, is_transactional=is_transactional)
    except KafkaError as error:
        return error.error_code.name
    return "NONE"


class TestSessions:
    def test_member_without_heartbeats_is_removed(self, scene):
        leader, follower = scene.stable(2)
        scene.pass_ms(SESSION_MS - 1)
        scene.heartbeat(leader)
        scene.pass_ms(2)
        assert list(scene.group.metadata.members) == [leader]
        assert scene.heartbeat(follower) == "UNKNOWN_MEMBER_ID"

    def test_heartbeat_extends_the_session(self, scene):
        (member,) = scene.stable()
        for _ in range(10):
            scene.pass_ms(SESSION_MS - 1)
            assert scene.heartbeat(member) == "NONE"

    def test_offset_commit_extends_the_session(self, scene):
        (member,) = scene.stable()
        for _ in range(10):
            scene.pass_ms(SESSION_MS - 1)
            assert commit_error(scene, member, 1) == "NONE"
        assert scene.heartbeat(member) == "NONE"

    def test_member_waiting_for_a_rebalance_needs_no_heartbeats(self, scene):
        leader, follower = scene.stable(2)
        waiting = scene.join(follower, topics=("other",))
        for _ in range(3):
            scene.pass_ms(SESSION_MS - 1)
            scene.heartbeat(leader)
        scene.join(leader)
        assert waiting.error == "NONE"
        scene.pass_ms(SESSION_MS - 1)
        assert scene.heartbeat(follower) == "NONE"

    def test_session_starts_with_the_join_response(self, scene):
        leader, follower = scene.stable(2)
        waiting = scene.join(follower, topics=("other",))
        for _ in range(3):
            scene.pass_ms(SESSION_MS - 1)
            scene.heartbeat(leader)
        scene.join(leader)
        assert waiting.error == "NONE"
        scene.pass_ms(SESSION_MS - 1)
        scene.heartbeat(leader)
        assert follower in scene.group.metadata.members
        scene.pass_ms(2)
        assert list(scene.group.metadata.members) == [leader]

    @pytest.mark.parametrize("generation", [0, 2, -1])
    def test_heartbeat_with_another_generation_is_rejected(self, scene, generation):
        (member,) = scene.stable()
        assert scene.heartbeat(member, generation) == "ILLEGAL_GENERATION"

    def test_members_of_a_loaded_group_have_a_full_session(self, scene):
        (member,) = scene.stable()
        scene.pass_ms(SESSION_MS - 1)
        scene.reload()
        scene.pass_ms(SESSION_MS - 1)
        assert scene.heartbeat(member) == "NONE"
        scene.pass_ms(SESSION_MS + 1)
        assert scene.state == "Empty"


class TestCommits:
    def test_member_commits_in_its_generation(self, scene):
        (member,) = scene.stable()
        assert commit_error(scene, member, 1) == "NONE"
        assert commit_error(scene, member, 0) == "ILLEGAL_GENERATION"
        assert commit_error(scene, "stranger", 1) == "UNKNOWN_MEMBER_ID"
        assert commit_error(scene, member, 1, instance_id="one") == "UNKNOWN_MEMBER_ID"

    def test_simple_consumer_cannot_commit_while_there_are_members(self, scene):
        scene.stable()
        assert commit_error(scene, "", -1) == "UNKNOWN_MEMBER_ID"
        assert commit_error(scene, "", -1, is_transactional=True) == "NONE"

    def test_simple_consumer_commits_when_the_group_is_empty(self, scene):
        (member,) = scene.stable()
        scene.leave(member)
        assert commit_error(scene, "", -1) == "NONE"
        assert commit_error(scene, member, 1) == "UNKNOWN_MEMBER_ID"

    def test_commit_during_a_rebalance_is_allowed_until_all_have_joined(self, scene):
        leader, follower = scene.stable(2)
        scene.join(leader)
        assert commit_error(scene, follower, 1) == "NONE"
        scene.join(follower)
        assert commit_error(scene, follower, 2) == "REBALANCE_IN_PROGRESS"

    def test_replaced_static_member_is_fenced(self, scene):
        (old,) = scene.stable(instance_id="one")
        scene.join(instance_id="one")
        assert commit_error(scene, old, 1, instance_id="one") == "FENCED_INSTANCE_ID"


class TestOffsetUse:
    def test_offsets_of_subscribed_topics_do_not_expire_in_a_stable_group(self, scene):
        scene.stable(topics=("events",))
        group = scene.group
        assert group.offset_expiration_base_ms("events", COMMIT) is None
        assert group.offset_expiration_base_ms("other", COMMIT) == COMMIT.commit_timestamp_ms
        assert (group.is_subscribed_to("events"), group.is_subscribed_to("other")) == (True, False)

    def test_offsets_of_an_empty_group_expire_from_when_it_became_empty(self, scene):
        (member,) = scene.stable()
        scene.pass_ms(5000)
        scene.leave(member)
        assert (
            scene.group.offset_expiration_base_ms("events", COMMIT)
            == EPOCH_MS + scene.loop.now_ms()
        )
        assert not scene.group.is_subscribed_to("events")

    def test_group_of_another_protocol_type_uses_all_topics(self, scene):
        scene.stable(protocol_type="connect")
        assert scene.group.is_subscribed_to("other")
        assert scene.group.offset_expiration_base_ms("other", COMMIT) is None
        with pytest.raises(KafkaError) as caught:
            scene.group.validate_offset_delete()
        assert caught.value.error_code.name == "NON_EMPTY_GROUP"

    def test_group_with_unreadable_subscriptions_uses_all_topics(self, scene):
        scene.stable(protocols=[MemberProtocol("range", b"\xff")])
        assert scene.group.is_subscribed_to("other")
        assert scene.group.offset_expiration_base_ms("other", COMMIT) is None


class TestUnloading:
    def test_waiting_join_gets_not_coordinator(self, scene):
        _, follower = scene.stable(2)
        joining = scene.join(follower, topics=("other",))
        scene.shard.on_unloaded()
        assert joining.error == "NOT_COORDINATOR"

    def test_waiting_sync_gets_not_coordinator(self, scene):
        joins = [scene.join(), scene.join()]
        scene.pass_ms(1)
        syncing = scene.sync(joins[1].result.member_id)
        scene.shard.on_unloaded()
        assert syncing.error == "NOT_COORDINATOR"

    def test_no_timer_is_left(self, scene):
        scene.stable(2)
        scene.join(requires_known_member_id=True)
        scene.join()
        group = scene.group
        scene.shard.on_unloaded()
        scene.pass_ms(10_000_000)
        assert group.metadata.state is ClassicGroupState.DEAD

    def test_dead_group_rejects_all_requests(self, scene):
        (member,) = scene.stable()
        scene.group.on_unloaded()
        assert scene.heartbeat(member) == "COORDINATOR_NOT_AVAILABLE"
        assert scene.join(member).error == "COORDINATOR_NOT_AVAILABLE"
        assert scene.sync(member).error == "COORDINATOR_NOT_AVAILABLE"
        assert scene.leave(member) == "COORDINATOR_NOT_AVAILABLE"
        assert commit_error(scene, member, 1) == "COORDINATOR_NOT_AVAILABLE"


def test_loaded_group_above_the_maximum_size_rebalances(scene, new_scene):
    scene.stable(3)
    small = new_scene(max_size=2)
    small.log.batches, small.log.log_end_offset = scene.log.batches, scene.log.log_end_offset
    small.reload()
    assert small.state == "PreparingRebalance"


def test_reload_restores_the_group(scene):
    leader, follower = scene.stable(2)
    before = scene.group.metadata.to_record_value()
    scene.reload()
    assert scene.group.metadata.to_record_value() == before
    assert scene.state == "Stable"
    assert scene.sync(follower).result.assignment == follower.encode()
    assert scene.group.metadata.leader == leader


def test_ongoing_rebalance_is_lost_on_reload(scene):
    leader, follower = scene.stable(2)
    scene.join()
    scene.reload()
    assert scene.state == "Stable"
    assert scene.heartbeat(leader) == scene.heartbeat(follower) == "NONE"


@pytest.mark.parametrize("state", ClassicGroupState)
@pytest.mark.parametrize("target", ClassicGroupState)
def test_only_valid_transitions_are_made(scene, state, target):
    scene.join(requires_known_member_id=True)
    metadata = scene.shard.groups[GROUP].metadata
    metadata.state = state
    if target in VALID_TRANSITIONS[state]:
        metadata.transition_to(target, now_ms=3)
        assert (metadata.state, metadata.current_state_timestamp_ms) == (target, 3)
    else:
        with pytest.raises(IllegalTransition):
            metadata.transition_to(target, now_ms=3)
    metadata.state = ClassicGroupState.EMPTY
