"""JoinGroup in classic groups."""

import pytest

from odradek.protocol.errors import KafkaStorageError, RequestTimedOut
from tests.support.group_scene import GROUP, REBALANCE_MS, SESSION_MS, offers


def test_first_member_is_the_leader(scene):
    joining = scene.join(topics=("events",))
    assert joining.error == "waiting"
    scene.pass_ms(1)
    joined = joining.result
    assert (joined.generation, joined.protocol, joined.protocol_type) == (1, "range", "consumer")
    assert joined.leader == joined.member_id == "reader-1"
    assert [member.member_id for member in joined.members] == ["reader-1"]
    assert joined.members[0].metadata == offers("range")[0].metadata
    assert scene.state == "CompletingRebalance"


def test_new_member_gets_its_id_first(scene):
    first = scene.join(requires_known_member_id=True)
    assert first.error == "MEMBER_ID_REQUIRED"
    assert first.result.member_id == "reader-1"
    assert scene.state == "Empty"
    rejoining = scene.join(first.result.member_id, requires_known_member_id=True)
    scene.pass_ms(1)
    assert rejoining.result.member_id == "reader-1"


def test_unused_member_id_expires_after_a_session(scene):
    pending = scene.join(requires_known_member_id=True).result.member_id
    scene.pass_ms(SESSION_MS + 1)
    assert scene.join(pending).error == "UNKNOWN_MEMBER_ID"


def test_rebalance_waits_for_pending_member_ids(scene):
    (leader,) = scene.stable()
    pending = scene.join(requires_known_member_id=True).result.member_id
    rejoining = scene.join(leader)
    assert rejoining.error == "waiting"
    other = scene.join(pending)
    assert (rejoining.error, other.error) == ("NONE", "NONE")


def test_pending_member_id_can_leave(scene):
    (leader,) = scene.stable()
    pending = scene.join(requires_known_member_id=True).result.member_id
    rejoining = scene.join(leader)
    assert scene.leave(pending) == "NONE"
    assert rejoining.error == "NONE"


def test_members_within_the_initial_rebalance_delay_join_the_first_generation(new_scene):
    scene = new_scene(initial_rebalance_delay_ms=3000)
    first = scene.join()
    scene.pass_ms(2000)
    second = scene.join()
    scene.pass_ms(1500)
    assert (first.error, second.error) == ("waiting", "waiting")
    scene.pass_ms(3000)
    assert (first.result.generation, second.result.generation) == (1, 1)
    assert len(first.result.members) == 2
    assert second.result.members == ()


def test_initial_delay_ends_at_the_rebalance_timeout(new_scene):
    scene = new_scene(initial_rebalance_delay_ms=3000)
    joins = []
    for _ in range(5):
        joins.append(scene.join(rebalance_ms=7000))
        scene.pass_ms(2000)
    assert [each.error for each in joins] == ["NONE", "NONE", "NONE", "NONE", "waiting"]
    assert len(joins[0].result.members) == 4


def test_new_member_of_a_stable_group_starts_a_rebalance(scene):
    first, second = scene.stable(2)
    third = scene.join()
    assert scene.state == "PreparingRebalance"
    assert scene.heartbeat(first) == "REBALANCE_IN_PROGRESS"
    rejoins = [scene.join(first), scene.join(second)]
    assert {each.result.generation for each in [third, *rejoins]} == {2}
    assert {each.result.leader for each in [third, *rejoins]} == {first}


def test_member_that_does_not_rejoin_in_time_is_removed(scene):
    first, second = scene.stable(2)
    third = scene.join()
    rejoining = scene.join(first)
    for _ in range(int(REBALANCE_MS / SESSION_MS) + 1):
        scene.heartbeat(second)
        scene.pass_ms(SESSION_MS - 1)
    assert [rejoining.error, third.error] == ["NONE", "NONE"]
    assert set(scene.group.metadata.members) == {first, third.result.member_id}
    assert scene.heartbeat(second) == "UNKNOWN_MEMBER_ID"


def test_leader_that_does_not_rejoin_is_replaced(scene):
    first, second = scene.stable(2)
    third, rejoining = scene.join(), scene.join(second)
    scene.pass_ms(SESSION_MS + 1)
    assert rejoining.result.leader == second
    assert third.result.leader == second
    assert first not in scene.group.metadata.members


def test_unchanged_follower_that_rejoins_gets_the_current_generation(scene):
    _, follower = scene.stable(2)
    rejoining = scene.join(follower)
    assert (rejoining.result.generation, rejoining.result.members) == (1, ())
    assert scene.state == "Stable"


@pytest.mark.parametrize("change", [{"topics": ("other",)}, {"offered": ("range", "roundrobin")}])
def test_follower_with_changed_metadata_starts_a_rebalance(scene, change):
    leader, follower = scene.stable(2)
    rejoining = scene.join(follower, **change)
    assert scene.state == "PreparingRebalance"
    assert scene.join(leader).result.generation == 2
    assert rejoining.result.generation == 2


def test_leader_that_rejoins_starts_a_rebalance(scene):
    leader, follower = scene.stable(2)
    rejoining = scene.join(leader)
    assert scene.state == "PreparingRebalance"
    assert rejoining.error == "waiting"
    scene.join(follower)
    assert rejoining.result.generation == 2


def test_member_that_missed_the_response_gets_it_again(scene):
    joining = scene.join()
    scene.pass_ms(1)
    rejoining = scene.join(joining.result.member_id)
    assert rejoining.result == joining.result


def test_protocol_with_most_votes_among_common_ones_is_chosen(scene):
    scene.join(offered=("sticky", "range", "roundrobin"))
    scene.join(offered=("roundrobin", "range"))
    joining = scene.join(offered=("range", "roundrobin", "odd"))
    scene.join(offered=("roundrobin", "range", "sticky"))
    scene.join(offered=("roundrobin", "range"))
    scene.pass_ms(1)
    assert joining.result.protocol == "roundrobin"


def test_member_without_a_common_protocol_is_rejected(scene):
    scene.join(offered=("range", "sticky"))
    scene.join(offered=("range",))
    assert scene.join(offered=("sticky",)).error == "INCONSISTENT_GROUP_PROTOCOL"
    assert scene.join(protocol_type="connect").error == "INCONSISTENT_GROUP_PROTOCOL"


@pytest.mark.parametrize("empty", [{"protocol_type": ""}, {"protocols": []}])
def test_member_without_protocols_creates_no_group(scene, empty):
    assert scene.join(**empty).error == "INCONSISTENT_GROUP_PROTOCOL"
    assert GROUP not in scene.shard.groups


def test_unknown_member_id_is_rejected(scene):
    assert scene.join("stranger").error == "UNKNOWN_MEMBER_ID"
    scene.stable()
    assert scene.join("stranger").error == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_session_timeout_out_of_range_is_rejected(scene, session_ms):
    assert scene.join(session_ms=session_ms).error == "INVALID_SESSION_TIMEOUT"
    assert not scene.shard.groups


def test_full_group_rejects_new_members(new_scene):
    scene = new_scene(max_size=2)
    first, second = scene.stable(2)
    assert scene.join().error == "GROUP_MAX_SIZE_REACHED"
    assert scene.state == "Stable"
    assert scene.heartbeat(second) == scene.heartbeat(first) == "NONE"


def test_last_member_of_an_oversized_group_is_rejected(new_scene):
    scene = new_scene(max_size=2)
    first, second, third = [scene.join(offered=("range",)) for _ in range(3)]
    assert third.error == "GROUP_MAX_SIZE_REACHED"
    scene.pass_ms(1)
    assert (first.error, second.error) == ("NONE", "NONE")


def test_new_member_without_client_is_removed_after_five_minutes(scene):
    (leader,) = scene.stable(rebalance_ms=1_000_000)
    joining = scene.join(rebalance_ms=1_000_000)
    for _ in range(40):
        scene.pass_ms(SESSION_MS - 1)
        scene.heartbeat(leader)
    assert joining.error == "UNKNOWN_MEMBER_ID"
    assert list(scene.group.metadata.members) == [leader]


def test_session_of_a_new_member_starts_with_its_join_response(scene):
    (member,) = scene.stable()
    scene.pass_ms(SESSION_MS - 1)
    assert scene.heartbeat(member) == "NONE"
    scene.pass_ms(SESSION_MS + 1)
    assert scene.state == "Empty"


class TestStaticMembers:
    """KIP-345."""

    def test_returning_member_gets_its_assignment_without_a_rebalance(self, scene):
        (old,) = scene.stable(instance_id="one")
        rejoining = scene.join(instance_id="one")
        joined = rejoining.result
        assert joined.generation == 1
        assert joined.member_id != old
        assert scene.state == "Stable"
        assert scene.sync(joined.member_id, instance_id="one").result.assignment == old.encode()

    def test_old_member_id_is_fenced(self, scene):
        (old,) = scene.stable(instance_id="one")
        scene.join(instance_id="one")
        assert scene.heartbeat(old, instance_id="one") == "FENCED_INSTANCE_ID"
        assert scene.join(old, instance_id="one").error == "FENCED_INSTANCE_ID"
        assert scene.sync(old, instance_id="one").error == "FENCED_INSTANCE_ID"
        assert scene.leave(old, instance_id="one") == "FENCED_INSTANCE_ID"
        assert scene.heartbeat(old) == "UNKNOWN_MEMBER_ID"

    def test_unknown_instance_id_is_rejected(self, scene):
        (old,) = scene.stable(instance_id="one")
        assert scene.heartbeat(old, instance_id="two") == "UNKNOWN_MEMBER_ID"

    def test_waiting_join_of_the_old_member_id_is_fenced(self, scene):
        (leader,) = scene.stable(instance_id="one")
        waiting = scene.join(instance_id="two")
        scene.join(instance_id="two")
        assert waiting.error == "FENCED_INSTANCE_ID"
        assert scene.join(leader, instance_id="one").error == "NONE"

    def test_returning_leader_leads_and_skips_the_assignment(self, scene):
        scene.stable(instance_id="one")
        joined = scene.join(instance_id="one").result
        assert joined.leader == joined.member_id
        assert joined.skip_assignment
        assert len(joined.members) == 1

    def test_returning_leader_with_an_older_client_sees_its_old_member_id_as_leader(self, scene):
        (old,) = scene.stable(instance_id="one")
        joined = scene.join(instance_id="one", supports_skipping_assignment=False).result
        assert (joined.leader, joined.skip_assignment, joined.members) == (old, False, ())

    def test_returning_member_that_changes_the_protocol_starts_a_rebalance(self, scene):
        scene.stable(instance_id="one", offered=("range", "sticky"))
        rejoining = scene.join(instance_id="one", offered=("sticky",))
        assert rejoining.result.generation == 2
        assert rejoining.result.protocol == "sticky"

    def test_new_member_id_survives_a_reload(self, scene):
        scene.stable(instance_id="one")
        new = scene.join(instance_id="one").result.member_id
        scene.reload()
        assert scene.heartbeat(new, instance_id="one") == "NONE"

    def test_new_member_id_is_not_used_if_it_cannot_be_stored(self, scene):
        (old,) = scene.stable(instance_id="one")
        scene.log.failure = KafkaStorageError()
        assert scene.join(instance_id="one").error == "NOT_COORDINATOR"
        assert scene.heartbeat(old, instance_id="one") == "NONE"

    def test_failed_replacement_extends_the_session_of_the_old_member_id(self, scene):
        (old,) = scene.stable(instance_id="one")
        scene.pass_ms(SESSION_MS - 1)
        scene.log.failure = KafkaStorageError()
        assert scene.join(instance_id="one").error == "NOT_COORDINATOR"
        scene.pass_ms(SESSION_MS - 1)
        assert scene.heartbeat(old, instance_id="one") == "NONE"

    def test_join_response_waits_for_replication(self, scene):
        scene.stable(instance_id="one")
        scene.log.is_held = True
        rejoining = scene.join(instance_id="one")
        assert rejoining.error == "waiting"
        scene.log.release()
        assert rejoining.error == "NONE"

    def test_replaced_join_waits_for_its_own_record(self, scene):
        scene.stable(instance_id="one")
        scene.log.is_held = True
        first = scene.join(instance_id="one")
        second_offset = scene.log.log_end_offset
        second = scene.join(instance_id="one")
        assert (first.error, second.error) == ("FENCED_INSTANCE_ID", "waiting")
        scene.log.release_before(second_offset)
        assert second.error == "waiting"
        scene.log.release_before(scene.log.log_end_offset)
        assert second.error == "NONE"

    @pytest.mark.parametrize("error", [None, RequestTimedOut()])
    def test_session_restarts_after_it_expired_during_replication(self, scene, error):
        scene.stable(instance_id="one")
        scene.log.is_held = True
        rejoining = scene.join(instance_id="one")
        scene.pass_ms(SESSION_MS + 1)
        assert rejoining.error == "waiting"
        scene.log.release(error)
        assert rejoining.is_answered
        scene.pass_ms(SESSION_MS - 1)
        assert scene.state == "Stable"
        scene.pass_ms(2)
        assert scene.state == "Empty"

    def test_group_with_all_members_away_waits_for_their_sessions(self, scene):
        scene.stable(instance_id="one", session_ms=30_000, rebalance_ms=10_000)
        scene.leave(scene.join(requires_known_member_id=True).result.member_id)
        scene.group.prepare_rebalance("an operator's whim")
        scene.pass_ms(25_000)
        assert scene.state == "PreparingRebalance"
        scene.pass_ms(10_000)
        assert scene.state == "Empty"

    def test_new_member_of_a_group_with_all_members_away_gets_a_response(self, scene):
        timeouts = {"session_ms": 100_000, "rebalance_ms": 10_000}
        scene.stable(instance_id="one", **timeouts)
        scene.group.prepare_rebalance("an operator's whim")
        scene.pass_ms(10_001)
        joined = scene.join(instance_id="two", **timeouts)
        assert joined.error == "waiting"
        scene.pass_ms(10_001)
        assert joined.result.generation == 2

    def test_member_that_is_away_stays_in_the_group_during_a_rebalance(self, scene):
        (old,) = scene.stable(instance_id="one", session_ms=100_000, rebalance_ms=10_000)
        other = scene.join(instance_id="two", session_ms=100_000, rebalance_ms=10_000)
        scene.pass_ms(10_001)
        assert other.result.generation == 2
        assert set(scene.group.metadata.members) == {old, other.result.member_id}


def test_returning_static_member_updates_the_subscribed_topics(scene):
    scene.stable(instance_id="static")
    scene.join(instance_id="static", topics=("events", "other"))
    assert scene.state == "Stable"
    assert scene.group.is_subscribed_to("other")
    assert (
        scene.group.metadata.subscribed_topics
        == scene.replayed().groups[GROUP].metadata.subscribed_topics
    )
