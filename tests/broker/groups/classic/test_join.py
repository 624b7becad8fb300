"""Who may join a classic group, and what comes of it."""

import pytest

from odradek.protocol.errors import KafkaStorageError, RequestTimedOut
from tests.support.group_scene import GROUP, REBALANCE_MS, SESSION_MS, offers


def test_the_first_member_leads_a_group_of_its_own(scene):
    joining = scene.join(topics=("events",))
    assert joining.error == "waiting"
    scene.pass_ms(1)
    joined = joining.result
    assert (joined.generation, joined.protocol, joined.protocol_type) == (1, "range", "consumer")
    assert joined.leader == joined.member_id == "reader-1"
    assert [member.member_id for member in joined.members] == ["reader-1"]
    assert joined.members[0].metadata == offers("range")[0].metadata
    assert scene.state == "CompletingRebalance"


def test_a_new_member_is_first_given_its_id(scene):
    first = scene.join(requires_id=True)
    assert first.error == "MEMBER_ID_REQUIRED"
    assert first.result.member_id == "reader-1"
    assert scene.state == "Empty"
    again = scene.join(first.result.member_id, requires_id=True)
    scene.pass_ms(1)
    assert again.result.member_id == "reader-1"


def test_an_id_that_never_comes_back_is_forgotten_after_a_session(scene):
    pending = scene.join(requires_id=True).result.member_id
    scene.pass_ms(SESSION_MS + 1)
    assert scene.join(pending).error == "UNKNOWN_MEMBER_ID"


def test_a_rebalance_waits_for_ids_that_were_handed_out(scene):
    (leader,) = scene.stable()
    pending = scene.join(requires_id=True).result.member_id
    rejoining = scene.join(leader)
    assert rejoining.error == "waiting"
    other = scene.join(pending)
    assert (rejoining.error, other.error) == ("NONE", "NONE")


def test_an_id_that_was_handed_out_may_be_given_back(scene):
    (leader,) = scene.stable()
    pending = scene.join(requires_id=True).result.member_id
    rejoining = scene.join(leader)
    assert scene.leave(pending) == "NONE"
    assert rejoining.error == "NONE"


def test_those_who_come_within_the_initial_delay_are_in_the_first_generation(new_scene):
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


def test_the_initial_delay_ends_with_the_rebalance_timeout(new_scene):
    scene = new_scene(initial_rebalance_delay_ms=3000)
    joins = []
    for _ in range(5):
        joins.append(scene.join(rebalance_ms=7000))
        scene.pass_ms(2000)
    assert [each.error for each in joins] == ["NONE", "NONE", "NONE", "NONE", "waiting"]
    assert len(joins[0].result.members) == 4


def test_somebody_who_joins_a_stable_group_makes_everybody_join_again(scene):
    first, second = scene.stable(2)
    third = scene.join()
    assert scene.state == "PreparingRebalance"
    assert scene.heartbeat(first) == "REBALANCE_IN_PROGRESS"
    again = [scene.join(first), scene.join(second)]
    assert {each.result.generation for each in [third, *again]} == {2}
    assert {each.result.leader for each in [third, *again]} == {first}


def test_who_does_not_join_in_time_is_out(scene):
    first, second = scene.stable(2)
    third = scene.join()
    again = scene.join(first)
    for _ in range(int(REBALANCE_MS / SESSION_MS) + 1):
        scene.heartbeat(second)
        scene.pass_ms(SESSION_MS - 1)
    assert [again.error, third.error] == ["NONE", "NONE"]
    assert set(scene.group.roster.members) == {first, third.result.member_id}
    assert scene.heartbeat(second) == "UNKNOWN_MEMBER_ID"


def test_a_leader_that_does_not_join_is_followed_by_one_that_did(scene):
    first, second = scene.stable(2)
    third, again = scene.join(), scene.join(second)
    scene.pass_ms(SESSION_MS + 1)
    assert again.result.leader == second
    assert third.result.leader == second
    assert first not in scene.group.roster.members


def test_a_follower_that_joins_again_as_it_was_is_told_of_the_generation(scene):
    _, follower = scene.stable(2)
    again = scene.join(follower)
    assert (again.result.generation, again.result.members) == (1, ())
    assert scene.state == "Stable"


@pytest.mark.parametrize("change", [{"topics": ("other",)}, {"offered": ("range", "roundrobin")}])
def test_a_follower_that_offers_something_else_starts_a_rebalance(scene, change):
    leader, follower = scene.stable(2)
    again = scene.join(follower, **change)
    assert scene.state == "PreparingRebalance"
    assert scene.join(leader).result.generation == 2
    assert again.result.generation == 2


def test_a_leader_that_joins_again_starts_a_rebalance(scene):
    leader, follower = scene.stable(2)
    again = scene.join(leader)
    assert scene.state == "PreparingRebalance"
    assert again.error == "waiting"
    scene.join(follower)
    assert again.result.generation == 2


def test_a_member_that_missed_the_answer_is_answered_again(scene):
    joining = scene.join()
    scene.pass_ms(1)
    again = scene.join(joining.result.member_id)
    assert again.result == joining.result


def test_the_protocol_is_the_one_that_most_prefer_of_those_that_all_offer(scene):
    scene.join(offered=("sticky", "range", "roundrobin"))
    scene.join(offered=("roundrobin", "range"))
    joining = scene.join(offered=("range", "roundrobin", "odd"))
    scene.join(offered=("roundrobin", "range", "sticky"))
    scene.join(offered=("roundrobin", "range"))
    scene.pass_ms(1)
    assert joining.result.protocol == "roundrobin"


def test_who_offers_nothing_that_all_others_do_is_refused(scene):
    scene.join(offered=("range", "sticky"))
    scene.join(offered=("range",))
    assert scene.join(offered=("sticky",)).error == "INCONSISTENT_GROUP_PROTOCOL"
    assert scene.join(protocol_type="connect").error == "INCONSISTENT_GROUP_PROTOCOL"


@pytest.mark.parametrize("empty", [{"protocol_type": ""}, {"offers": []}])
def test_who_offers_nothing_at_all_begins_no_group(scene, empty):
    assert scene.join(**empty).error == "INCONSISTENT_GROUP_PROTOCOL"
    assert GROUP not in scene.shard.groups


def test_a_member_that_nobody_knows_is_told_so(scene):
    assert scene.join("stranger").error == "UNKNOWN_MEMBER_ID"
    scene.stable()
    assert scene.join("stranger").error == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_a_session_must_be_within_bounds(scene, session_ms):
    assert scene.join(session_ms=session_ms).error == "INVALID_SESSION_TIMEOUT"
    assert not scene.shard.groups


def test_a_full_group_takes_nobody_else(new_scene):
    scene = new_scene(max_size=2)
    first, second = scene.stable(2)
    assert scene.join().error == "GROUP_MAX_SIZE_REACHED"
    assert scene.state == "Stable"
    assert scene.heartbeat(second) == scene.heartbeat(first) == "NONE"


def test_of_a_group_that_is_too_large_the_last_to_join_are_out(new_scene):
    scene = new_scene(max_size=2)
    first, second, third = [scene.join(offered=("range",)) for _ in range(3)]
    assert third.error == "GROUP_MAX_SIZE_REACHED"
    scene.pass_ms(1)
    assert (first.error, second.error) == ("NONE", "NONE")


def test_a_new_member_whose_client_has_gone_is_out_after_five_minutes(scene):
    (leader,) = scene.stable(rebalance_ms=1_000_000)
    joining = scene.join(rebalance_ms=1_000_000)
    for _ in range(40):
        scene.pass_ms(SESSION_MS - 1)
        scene.heartbeat(leader)
    assert joining.error == "UNKNOWN_MEMBER_ID"
    assert list(scene.group.roster.members) == [leader]


def test_a_member_that_is_new_to_a_group_of_another_generation_has_its_session_when_told(scene):
    (member,) = scene.stable()
    scene.pass_ms(SESSION_MS - 1)
    assert scene.heartbeat(member) == "NONE"
    scene.pass_ms(SESSION_MS + 1)
    assert scene.state == "Empty"


class TestStaticMembers:
    """KIP-345."""

    def test_one_that_comes_back_has_its_assignment_without_a_rebalance(self, scene):
        (old,) = scene.stable(instance_id="one")
        back = scene.join(instance_id="one")
        joined = back.result
        assert joined.generation == 1
        assert joined.member_id != old
        assert scene.state == "Stable"
        assert scene.sync(joined.member_id, instance_id="one").result.assignment == old.encode()

    def test_its_old_id_is_fenced(self, scene):
        (old,) = scene.stable(instance_id="one")
        scene.join(instance_id="one")
        assert scene.heartbeat(old, instance_id="one") == "FENCED_INSTANCE_ID"
        assert scene.join(old, instance_id="one").error == "FENCED_INSTANCE_ID"
        assert scene.sync(old, instance_id="one").error == "FENCED_INSTANCE_ID"
        assert scene.leave(old, instance_id="one") == "FENCED_INSTANCE_ID"
        assert scene.heartbeat(old) == "UNKNOWN_MEMBER_ID"

    def test_an_instance_that_nobody_has_is_no_member(self, scene):
        (old,) = scene.stable(instance_id="one")
        assert scene.heartbeat(old, instance_id="two") == "UNKNOWN_MEMBER_ID"

    def test_whoever_waits_under_the_old_id_is_fenced_at_once(self, scene):
        (leader,) = scene.stable(instance_id="one")
        waiting = scene.join(instance_id="two")
        scene.join(instance_id="two")
        assert waiting.error == "FENCED_INSTANCE_ID"
        assert scene.join(leader, instance_id="one").error == "NONE"

    def test_a_leader_that_comes_back_leads_and_need_not_assign(self, scene):
        scene.stable(instance_id="one")
        joined = scene.join(instance_id="one").result
        assert joined.leader == joined.member_id
        assert joined.skip_assignment
        assert len(joined.members) == 1

    def test_an_older_client_is_kept_from_assigning_by_its_old_name(self, scene):
        (old,) = scene.stable(instance_id="one")
        joined = scene.join(instance_id="one", can_skip_assignment=False).result
        assert (joined.leader, joined.skip_assignment, joined.members) == (old, False, ())

    def test_one_that_changes_the_protocol_of_all_starts_a_rebalance(self, scene):
        scene.stable(instance_id="one", offered=("range", "sticky"))
        back = scene.join(instance_id="one", offered=("sticky",))
        assert back.result.generation == 2
        assert back.result.protocol == "sticky"

    def test_the_new_id_survives_the_coordinator(self, scene):
        scene.stable(instance_id="one")
        new = scene.join(instance_id="one").result.member_id
        scene.reload()
        assert scene.heartbeat(new, instance_id="one") == "NONE"

    def test_a_new_id_that_cannot_be_stored_is_not_given(self, scene):
        (old,) = scene.stable(instance_id="one")
        scene.log.failure = KafkaStorageError()
        assert scene.join(instance_id="one").error == "NOT_COORDINATOR"
        assert scene.heartbeat(old, instance_id="one") == "NONE"

    def test_whoever_asks_for_one_that_cannot_be_stored_was_heard(self, scene):
        (old,) = scene.stable(instance_id="one")
        scene.pass_ms(SESSION_MS - 1)
        scene.log.failure = KafkaStorageError()
        assert scene.join(instance_id="one").error == "NOT_COORDINATOR"
        scene.pass_ms(SESSION_MS - 1)
        assert scene.heartbeat(old, instance_id="one") == "NONE"

    def test_a_new_id_is_told_when_it_is_replicated(self, scene):
        scene.stable(instance_id="one")
        scene.log.is_held = True
        back = scene.join(instance_id="one")
        assert back.error == "waiting"
        scene.log.release()
        assert back.error == "NONE"

    def test_one_that_is_replaced_again_is_told_when_its_own_record_is_replicated(self, scene):
        scene.stable(instance_id="one")
        scene.log.is_held = True
        first = scene.join(instance_id="one")
        second_from = scene.log.end_offset
        second = scene.join(instance_id="one")
        assert (first.error, second.error) == ("FENCED_INSTANCE_ID", "waiting")
        scene.log.release_before(second_from)
        assert second.error == "waiting"
        scene.log.release_before(scene.log.end_offset)
        assert second.error == "NONE"

    @pytest.mark.parametrize("failure", [None, RequestTimedOut()])
    def test_a_session_that_ended_while_it_waited_for_replicas_begins_anew(self, scene, failure):
        scene.stable(instance_id="one")
        scene.log.is_held = True
        back = scene.join(instance_id="one")
        scene.pass_ms(SESSION_MS + 1)
        assert back.error == "waiting"
        scene.log.release(failure)
        assert back.is_answered
        scene.pass_ms(SESSION_MS - 1)
        assert scene.state == "Stable"
        scene.pass_ms(2)
        assert scene.state == "Empty"

    def test_a_group_whose_members_are_all_away_waits_for_their_sessions(self, scene):
        scene.stable(instance_id="one", session_ms=30_000, rebalance_ms=10_000)
        scene.leave(scene.join(requires_id=True).result.member_id)
        scene.group.prepare_rebalance("an operator's whim")
        scene.pass_ms(25_000)
        assert scene.state == "PreparingRebalance"
        scene.pass_ms(10_000)
        assert scene.state == "Empty"

    def test_whoever_joins_a_group_whose_members_are_all_away_is_answered(self, scene):
        timeouts = {"session_ms": 100_000, "rebalance_ms": 10_000}
        scene.stable(instance_id="one", **timeouts)
        scene.group.prepare_rebalance("an operator's whim")
        scene.pass_ms(10_001)
        joined = scene.join(instance_id="two", **timeouts)
        assert joined.error == "waiting"
        scene.pass_ms(10_001)
        assert joined.result.generation == 2

    def test_one_that_is_away_keeps_its_place_in_a_rebalance(self, scene):
        (old,) = scene.stable(instance_id="one", session_ms=100_000, rebalance_ms=10_000)
        other = scene.join(instance_id="two", session_ms=100_000, rebalance_ms=10_000)
        scene.pass_ms(10_001)
        assert other.result.generation == 2
        assert set(scene.group.roster.members) == {old, other.result.member_id}


def test_a_static_member_that_comes_back_with_other_topics_is_known_by_those(scene):
    scene.stable(instance_id="static")
    scene.join(instance_id="static", topics=("events", "other"))
    assert scene.state == "Stable"
    assert scene.group.is_subscribed_to("other")
    assert scene.group.roster.subscribed == scene.replayed().groups[GROUP].roster.subscribed
