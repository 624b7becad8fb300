"""Tests of broker/groups/consumer/live_group.py and requests.py."""

import sys

import pytest

from odradek.broker.groups.committing import (
    InTransaction,
    NewCommit,
    commit,
    commit_in_transaction,
)
from odradek.broker.groups.group import Committer, GroupType
from odradek.broker.groups.offset_expiry import delete_group
from odradek.broker.settings.consumer_groups import OneGroupSettings
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    IllegalGeneration,
    KafkaError,
    MessageTooLarge,
    NonEmptyGroup,
    NotEnoughReplicas,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from tests.support.consumer_group_scene import of, parts
from tests.support.group_scene import GROUP
from tests.support.live_group_scene import REBALANCE_MS, SESSION_MS


@pytest.fixture
def scene(live_scene):
    return live_scene


def commit_at(scene, epoch, *, member_id="m1", **fields):
    place = NewCommit(("a", 0), 5, -1, "", 0)
    return commit(scene.shard, GROUP, Committer(member_id, None, epoch, **fields), [place])


# Sessions


def test_a_member_that_is_not_heard_is_out(scene):
    scene.join("m1", "a")
    scene.join("m2", "a")
    scene.base.pass_ms(SESSION_MS - 1_000)
    scene.beat("m2", 2)
    scene.base.pass_ms(2_000)
    assert list(scene.live.group.members) == ["m2"]
    assert scene.beat("m2", 2).assigned == of("a", 0, 1, 2, 3)
    assert scene.refusal("m1", 1) == "UNKNOWN_MEMBER_ID"


def test_heartbeats_keep_a_member_in_the_group(scene):
    scene.join("m1", "a")
    for _ in range(5):
        scene.base.pass_ms(SESSION_MS - 1_000)
        scene.beat("m1", 1)
    assert list(scene.live.group.members) == ["m1"]


def test_a_refused_heartbeat_keeps_nobody(scene):
    scene.join("m1", "a")
    scene.base.pass_ms(SESSION_MS - 1_000)
    assert scene.refusal("m1", 7) == "FENCED_MEMBER_EPOCH"
    scene.base.pass_ms(2_000)
    assert not scene.live.group.members


def test_a_member_that_does_not_give_up_in_time_is_out_although_it_is_heard(scene):
    scene.join("m1", "a")
    scene.join("m2", "a")
    scene.beat("m1", 1)
    scene.base.pass_ms(REBALANCE_MS - 1_000)
    scene.beat("m1", 1, owned=of("a", 0, 1, 2, 3))
    assert "m1" in scene.live.group.members
    scene.base.pass_ms(2_000)
    assert list(scene.live.group.members) == ["m2"]


def test_a_member_that_has_given_up_stays(scene):
    scene.join("m1", "a")
    scene.join("m2", "a")
    scene.beat("m1", 1)
    scene.beat("m1", 1, owned=of("a", 0, 1))
    scene.base.pass_ms(REBALANCE_MS + 1_000)
    assert set(scene.live.group.members) == {"m1", "m2"}


def test_a_static_member_that_does_not_come_back_is_out(scene):
    scene.join("m1", "a", instance_id="i")
    scene.beat("m1", -2, instance_id="i")
    scene.base.pass_ms(SESSION_MS + 1)
    assert scene.live.is_empty


def test_where_the_log_cannot_be_written_a_member_is_removed_later(scene):
    scene.join("m1", "a")
    scene.base.log.failure = NotEnoughReplicas()
    scene.base.pass_ms(SESSION_MS + 1)
    assert "m1" in scene.live.group.members
    scene.base.log.failure = None
    scene.base.pass_ms(SESSION_MS + 1)
    assert scene.live.is_empty


def test_where_the_log_cannot_be_written_who_does_not_give_up_is_removed_later(scene):
    scene.join("m1", "a")
    scene.join("m2", "a")
    scene.beat("m1", 1)
    scene.base.log.failure = NotEnoughReplicas()
    scene.base.pass_ms(REBALANCE_MS + 1)
    scene.beat("m1", 1, owned=of("a", 0, 1, 2, 3))
    assert "m1" in scene.live.group.members
    scene.base.log.failure = None
    for _ in range(3):
        scene.base.pass_ms(REBALANCE_MS / 2)
        if "m1" in scene.live.group.members:
            scene.beat("m1", 1, owned=of("a", 0, 1, 2, 3))
    assert "m1" not in scene.live.group.members


def test_where_the_log_cannot_be_written_nothing_changes(scene):
    scene.join("m1", "a")
    before = parts(scene.live.group.copy())
    scene.base.log.failure = NotEnoughReplicas()
    with pytest.raises(KafkaError) as refused:
        scene.join("m2", "a")
    assert refused.value.error is CoordinatorNotAvailable.error
    assert parts(scene.live.group) == before


def test_nothing_is_left_of_a_group_that_could_not_be_begun(scene):
    scene.base.log.failure = NotEnoughReplicas()
    with pytest.raises(KafkaError):
        scene.join("m1", "a")
    assert not scene.shard.groups


def test_a_group_may_have_a_session_of_its_own(scene):
    scene.configured[GROUP] = OneGroupSettings(session_timeout_ms=60_000)
    scene.join("m1", "a")
    scene.base.pass_ms(59_000)
    assert "m1" in scene.live.group.members
    del scene.configured[GROUP]
    scene.beat("m1", 1)
    scene.base.pass_ms(SESSION_MS + 1_000)
    assert scene.live.is_empty


# What it costs


def calls_made(act):
    """How many functions were called meanwhile, Python's and C's: no clock is as steady."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_join_takes_few_calls_for_a_partition(scene, assignor):
    partitions = 4_000
    scene.set_topic("large", partitions)
    for number in range(9):
        scene.join(f"m{number}", "large", server_assignor=assignor)
    count = calls_made(lambda: scene.join("last", "large", server_assignor=assignor))
    assert sum(map(len, scene.live.group.target.values())) == partitions
    assert count < 2 * partitions


def test_a_heartbeat_that_changes_nothing_takes_as_many_calls_in_a_large_group(scene):
    def calls_in_a_group_of(size):
        scene.set_topic("large", size)
        scene.join("m", "large")
        epoch = scene.member("m").epoch
        return calls_made(lambda: scene.beat("m", epoch))

    assert calls_in_a_group_of(5) == calls_in_a_group_of(4_000)


# Loading


def test_a_loaded_group_goes_on_as_it_was(scene):
    scene.join("m1", "a")
    scene.join("m2", "a")
    before = parts(scene.live.group)
    scene.base.reload()
    assert parts(scene.live.group) == before
    assert scene.beat("m1", 1).epoch == 1


def test_sessions_and_revocations_of_a_loaded_group_begin_anew(scene):
    scene.join("m1", "a")
    scene.join("m2", "a")
    scene.beat("m1", 1)
    scene.base.pass_ms(REBALANCE_MS - 1_000)
    scene.base.reload()
    scene.base.pass_ms(REBALANCE_MS - 1_000)
    assert set(scene.live.group.members) == {"m1", "m2"}
    scene.base.pass_ms(2_000)
    assert list(scene.live.group.members) == ["m2"]
    scene.base.pass_ms(SESSION_MS)
    assert scene.live.is_empty


# What any group can tell


def test_what_is_told_of_it(scene):
    scene.join("m1", "a")
    assert (scene.live.type, scene.live.protocol_type) == (GroupType.CONSUMER, "consumer")
    assert (scene.live.state_name, scene.live.is_empty) == ("Stable", False)
    assert scene.live.is_subscribed_to("a")
    assert not scene.live.is_subscribed_to("b")


def test_a_group_is_subscribed_to_what_its_members_are_at_the_moment(scene):
    scene.join("m1", "a")
    scene.join("m2", "b")
    assert scene.live.is_subscribed_to("b")
    scene.beat("m2", -1)
    assert not scene.live.is_subscribed_to("b")
    scene.beat("m1", 1, subscribed_topic_names=["c"])
    assert (scene.live.is_subscribed_to("a"), scene.live.is_subscribed_to("c")) == (False, True)


def test_members_commit_in_their_epoch(scene):
    scene.join("m1", "a")
    assert commit_at(scene, 1) is not None
    for epoch in (0, 2, -1):
        with pytest.raises(StaleMemberEpoch):
            commit_at(scene, epoch)
    with pytest.raises(UnknownMemberId):
        commit_at(scene, 1, member_id="m2")
    with pytest.raises(UnsupportedVersion):
        commit_at(scene, 1, knows_epochs=False)


def test_nobody_commits_from_outside_unless_the_group_is_empty(scene):
    scene.join("m1", "a")
    with pytest.raises(UnknownMemberId):
        commit_at(scene, -1, member_id="")
    scene.beat("m1", -1)
    assert commit_at(scene, -1, member_id="") is not None


#: Whether the group has members, who commits -> what Kafka 4.1.1 answers to TxnOffsetCommit
IN_TRANSACTIONS = {
    (True, Committer("", None, -1)): "NONE",
    (True, Committer("", None, 1)): "UNKNOWN_MEMBER_ID",
    (True, Committer("m1", None, 1)): "NONE",
    (True, Committer("m1", None, -1)): "ILLEGAL_GENERATION",
    (True, Committer("m1", None, 7)): "ILLEGAL_GENERATION",
    (True, Committer("x", None, 1)): "UNKNOWN_MEMBER_ID",
    (True, Committer("x", None, -1)): "UNKNOWN_MEMBER_ID",
    (True, Committer("", "i", -1)): "UNKNOWN_MEMBER_ID",
    (False, Committer("", None, -1)): "NONE",
    (False, Committer("m1", None, 1)): "UNKNOWN_MEMBER_ID",
    (False, Committer("m1", None, -1)): "NONE",
}


@pytest.mark.parametrize(("told", "expected"), IN_TRANSACTIONS.items())
def test_who_commits_in_a_transaction_is_answered_as_by_kafka(scene, told, expected):
    has_members, committer = told
    scene.join("m1", "a")
    if not has_members:
        scene.beat("m1", -1)
    place, answered = NewCommit(("a", 0), 5, -1, "", 0), "NONE"
    try:
        commit_in_transaction(scene.shard, GROUP, committer, InTransaction(1, 0), [place])
    except KafkaError as refused:
        answered = refused.error.name
    assert answered == expected


def test_what_is_larger_than_a_batch_is_refused_as_by_kafka_and_nothing_has_changed(scene):
    scene.base.log.failure = MessageTooLarge()
    with pytest.raises(KafkaError) as refused:
        scene.join("m1", "a")
    assert refused.value.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not scene.shard.groups


def test_members_ask_for_offsets_in_their_epoch(scene):
    scene.join("m1", "a")
    scene.live.check_fetch("m1", 1)
    scene.live.check_fetch(None, -1)
    with pytest.raises(StaleMemberEpoch):
        scene.live.check_fetch("m1", 0)
    for member_id in ("m2", ""):
        with pytest.raises(UnknownMemberId):
            scene.live.check_fetch(member_id, -1)


def test_a_group_with_members_is_not_deleted_and_an_empty_one_leaves_nothing(scene):
    scene.join("m1", "a", subscribed_topic_regex="a.*")
    with pytest.raises(NonEmptyGroup):
        delete_group(scene.shard, GROUP)
    scene.beat("m1", -1)
    delete_group(scene.shard, GROUP)
    assert not scene.base.replayed().groups
    assert scene.refusal("m1", 1) == "GROUP_ID_NOT_FOUND"


def test_switched_off_the_protocol_is_not_spoken(new_live_scene):
    scene = new_live_scene(rebalance_protocols=("classic",))
    assert scene.refusal("m1", 1) == "UNSUPPORTED_VERSION"


def test_who_does_not_join_begins_no_group(scene):
    for epoch in (5, -1):
        with pytest.raises(GroupIdNotFound):
            scene.beat("m1", epoch)
    assert not scene.shard.groups


def test_a_classic_member_of_another_generation_is_told_so(scene):
    scene.join("m1", "a")
    scene.base.join(topics=("a",))
    (classic,) = [each for each in scene.live.group.members.values() if each.is_classic]
    with pytest.raises(IllegalGeneration):
        commit_at(scene, 7, member_id=classic.id)
