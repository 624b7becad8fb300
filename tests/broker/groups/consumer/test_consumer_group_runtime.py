"""Tests of broker/groups/consumer/consumer_group_runtime.py and requests.py."""

import sys

import pytest

from odradek.broker.groups.group import Committer, GroupType
from odradek.broker.groups.offset_commits import (
    OffsetCommitEntry,
    TransactionalProducer,
    commit_offsets,
    commit_transactional_offsets,
)
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
    entry = OffsetCommitEntry(("a", 0), 5, -1, "", 0)
    return commit_offsets(scene.shard, GROUP, Committer(member_id, None, epoch, **fields), [entry])


# Sessions


def test_member_without_heartbeats_is_removed(scene):
    scene.join("m1", "a")
    scene.join("m2", "a")
    scene.base.pass_ms(SESSION_MS - 1_000)
    scene.beat("m2", 2)
    scene.base.pass_ms(2_000)
    assert list(scene.live.group.members) == ["m2"]
    assert scene.beat("m2", 2).assigned == of("a", 0, 1, 2, 3)
    assert scene.refusal("m1", 1) == "UNKNOWN_MEMBER_ID"


def test_heartbeats_extend_the_session(scene):
    scene.join("m1", "a")
    for _ in range(5):
        scene.base.pass_ms(SESSION_MS - 1_000)
        scene.beat("m1", 1)
    assert list(scene.live.group.members) == ["m1"]


def test_rejected_heartbeat_does_not_extend_the_session(scene):
    scene.join("m1", "a")
    scene.base.pass_ms(SESSION_MS - 1_000)
    assert scene.refusal("m1", 7) == "FENCED_MEMBER_EPOCH"
    scene.base.pass_ms(2_000)
    assert not scene.live.group.members


def test_member_that_does_not_revoke_in_time_is_removed_despite_heartbeats(scene):
    scene.join("m1", "a")
    scene.join("m2", "a")
    scene.beat("m1", 1)
    scene.base.pass_ms(REBALANCE_MS - 1_000)
    scene.beat("m1", 1, owned=of("a", 0, 1, 2, 3))
    assert "m1" in scene.live.group.members
    scene.base.pass_ms(2_000)
    assert list(scene.live.group.members) == ["m2"]


def test_member_that_has_revoked_stays(scene):
    scene.join("m1", "a")
    scene.join("m2", "a")
    scene.beat("m1", 1)
    scene.beat("m1", 1, owned=of("a", 0, 1))
    scene.base.pass_ms(REBALANCE_MS + 1_000)
    assert set(scene.live.group.members) == {"m1", "m2"}


def test_static_member_that_does_not_return_is_removed(scene):
    scene.join("m1", "a", instance_id="i")
    scene.beat("m1", -2, instance_id="i")
    scene.base.pass_ms(SESSION_MS + 1)
    assert scene.live.is_empty


def test_expired_member_is_removed_later_if_the_log_cannot_be_written(scene):
    scene.join("m1", "a")
    scene.base.log.failure = NotEnoughReplicas()
    scene.base.pass_ms(SESSION_MS + 1)
    assert "m1" in scene.live.group.members
    scene.base.log.failure = None
    scene.base.pass_ms(SESSION_MS + 1)
    assert scene.live.is_empty


def test_member_that_does_not_revoke_is_removed_later_if_the_log_cannot_be_written(scene):
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


def test_heartbeat_changes_nothing_if_the_log_cannot_be_written(scene):
    scene.join("m1", "a")
    before = parts(scene.live.group.copy())
    scene.base.log.failure = NotEnoughReplicas()
    with pytest.raises(KafkaError) as caught:
        scene.join("m2", "a")
    assert caught.value.error_code is CoordinatorNotAvailable.error_code
    assert parts(scene.live.group) == before


def test_failed_first_join_leaves_no_group(scene):
    scene.base.log.failure = NotEnoughReplicas()
    with pytest.raises(KafkaError):
        scene.join("m1", "a")
    assert not scene.shard.groups


def test_group_can_have_its_own_session_timeout(scene):
    scene.configured[GROUP] = OneGroupSettings(session_timeout_ms=60_000)
    scene.join("m1", "a")
    scene.base.pass_ms(59_000)
    assert "m1" in scene.live.group.members
    del scene.configured[GROUP]
    scene.beat("m1", 1)
    scene.base.pass_ms(SESSION_MS + 1_000)
    assert scene.live.is_empty


# Cost


def count_calls(act):
    """Count the calls of Python and C functions during ``act``; no clock is as steady."""
    count = 0

    def count_call(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(count_call)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_join_needs_less_than_two_calls_per_partition(scene, assignor):
    partitions = 4_000
    scene.set_topic("large", partitions)
    for number in range(9):
        scene.join(f"m{number}", "large", server_assignor=assignor)
    count = count_calls(lambda: scene.join("last", "large", server_assignor=assignor))
    assert sum(map(len, scene.live.group.target_assignment.values())) == partitions
    assert count < 2 * partitions


def test_heartbeat_without_changes_costs_the_same_in_a_large_group(scene):
    def calls_with_partitions(size):
        scene.set_topic("large", size)
        scene.join("m", "large")
        epoch = scene.member("m").epoch
        return count_calls(lambda: scene.beat("m", epoch))

    assert calls_with_partitions(5) == calls_with_partitions(4_000)


# Loading


def test_loaded_group_continues_unchanged(scene):
    scene.join("m1", "a")
    scene.join("m2", "a")
    before = parts(scene.live.group)
    scene.base.reload()
    assert parts(scene.live.group) == before
    assert scene.beat("m1", 1).member_epoch == 1


def test_sessions_and_revocations_restart_after_loading(scene):
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


# Interface of all group types


def test_group_describes_itself(scene):
    scene.join("m1", "a")
    assert (scene.live.type, scene.live.protocol_type) == (GroupType.CONSUMER, "consumer")
    assert (scene.live.state_name, scene.live.is_empty) == ("Stable", False)
    assert scene.live.is_subscribed_to("a")
    assert not scene.live.is_subscribed_to("b")


def test_subscribed_topics_follow_the_current_members(scene):
    scene.join("m1", "a")
    scene.join("m2", "b")
    assert scene.live.is_subscribed_to("b")
    scene.beat("m2", -1)
    assert not scene.live.is_subscribed_to("b")
    scene.beat("m1", 1, subscribed_topic_names=["c"])
    assert (scene.live.is_subscribed_to("a"), scene.live.is_subscribed_to("c")) == (False, True)


def test_member_commits_in_its_epoch(scene):
    scene.join("m1", "a")
    assert commit_at(scene, 1) is not None
    for epoch in (0, 2, -1):
        with pytest.raises(StaleMemberEpoch):
            commit_at(scene, epoch)
    with pytest.raises(UnknownMemberId):
        commit_at(scene, 1, member_id="m2")
    with pytest.raises(UnsupportedVersion):
        commit_at(scene, 1, supports_member_epochs=False)


def test_simple_consumer_commits_only_to_an_empty_group(scene):
    scene.join("m1", "a")
    with pytest.raises(UnknownMemberId):
        commit_at(scene, -1, member_id="")
    scene.beat("m1", -1)
    assert commit_at(scene, -1, member_id="") is not None


#: Whether the group has members and who commits -> Kafka 4.1.1's response to TxnOffsetCommit
TXN_OFFSET_COMMIT_ERRORS = {
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


@pytest.mark.parametrize(("case", "expected"), TXN_OFFSET_COMMIT_ERRORS.items())
def test_transactional_commit_gets_the_error_of_kafka(scene, case, expected):
    has_members, committer = case
    scene.join("m1", "a")
    if not has_members:
        scene.beat("m1", -1)
    entry, error_name = OffsetCommitEntry(("a", 0), 5, -1, "", 0), "NONE"
    try:
        commit_transactional_offsets(
            scene.shard, GROUP, committer, TransactionalProducer(1, 0), [entry]
        )
    except KafkaError as error:
        error_name = error.error_code.name
    assert error_name == expected


def test_oversized_update_gets_the_error_of_kafka_and_changes_nothing(scene):
    scene.base.log.failure = MessageTooLarge()
    with pytest.raises(KafkaError) as caught:
        scene.join("m1", "a")
    assert caught.value.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not scene.shard.groups


def test_member_fetches_offsets_in_its_epoch(scene):
    scene.join("m1", "a")
    scene.live.validate_offset_fetch("m1", 1)
    scene.live.validate_offset_fetch(None, -1)
    with pytest.raises(StaleMemberEpoch):
        scene.live.validate_offset_fetch("m1", 0)
    for member_id in ("m2", ""):
        with pytest.raises(UnknownMemberId):
            scene.live.validate_offset_fetch(member_id, -1)


def test_only_an_empty_group_is_deleted_and_leaves_no_records(scene):
    scene.join("m1", "a", subscribed_topic_regex="a.*")
    with pytest.raises(NonEmptyGroup):
        delete_group(scene.shard, GROUP)
    scene.beat("m1", -1)
    delete_group(scene.shard, GROUP)
    assert not scene.base.replayed().groups
    assert scene.refusal("m1", 1) == "GROUP_ID_NOT_FOUND"


def test_disabled_consumer_protocol_is_unsupported(new_live_scene):
    scene = new_live_scene(rebalance_protocols=("classic",))
    assert scene.refusal("m1", 1) == "UNSUPPORTED_VERSION"


def test_only_a_join_creates_a_group(scene):
    for epoch in (5, -1):
        with pytest.raises(GroupIdNotFound):
            scene.beat("m1", epoch)
    assert not scene.shard.groups


def test_commit_of_a_classic_member_with_another_generation_is_rejected(scene):
    scene.join("m1", "a")
    scene.base.join(topics=("a",))
    (classic,) = [each for each in scene.live.group.members.values() if each.is_classic]
    with pytest.raises(IllegalGeneration):
        commit_at(scene, 7, member_id=classic.id)
