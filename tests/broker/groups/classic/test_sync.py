"""SyncGroup in classic groups."""

import pytest

from odradek.protocol.errors import (
    KafkaStorageError,
    MessageTooLarge,
    NotEnoughReplicas,
    RequestTimedOut,
)
from tests.support.group_scene import REBALANCE_MS, SESSION_MS


@pytest.fixture
def two(scene):
    joins = [scene.join(), scene.join()]
    scene.pass_ms(1)
    return [each.result.member_id for each in joins]


def test_follower_waits_for_the_leaders_assignment(scene, two):
    leader, follower = two
    early = scene.sync(follower)
    assert early.error == "waiting"
    own = scene.sync(leader, {leader: b"left", follower: b"right"})
    assert (own.result.assignment, early.result.assignment) == (b"left", b"right")
    assert (own.result.protocol_type, own.result.protocol) == ("consumer", "range")
    assert scene.state == "Stable"


def test_later_sync_gets_the_assignment_at_once_and_repeatedly(scene, two):
    leader, follower = two
    scene.sync(leader, {leader: b"left", follower: b"right"})
    for _ in range(2):
        assert scene.sync(follower).result.assignment == b"right"


def test_member_without_an_assignment_gets_none_and_unknown_members_are_ignored(scene, two):
    leader, follower = two
    scene.sync(leader, {leader: b"all", "stranger": b"more"})
    assert scene.sync(follower).result.assignment == b""


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"generation": 0}, "ILLEGAL_GENERATION"),
        ({"generation": 2}, "ILLEGAL_GENERATION"),
        ({"protocol_type": "connect"}, "INCONSISTENT_GROUP_PROTOCOL"),
        ({"protocol": "sticky"}, "INCONSISTENT_GROUP_PROTOCOL"),
        ({"protocol_type": "consumer", "protocol": "range"}, "waiting"),
        ({"instance_id": "nobody"}, "UNKNOWN_MEMBER_ID"),
    ],
)
def test_member_with_another_generation_or_protocol_is_rejected(scene, two, fields, error):
    assert scene.sync(two[1], **fields).error == error


def test_unknown_member_is_rejected(scene, two):
    assert scene.sync("stranger").error == "UNKNOWN_MEMBER_ID"


def test_sync_during_a_rebalance_gets_rebalance_in_progress(scene, two):
    leader, follower = two
    early = scene.sync(follower)
    scene.join()
    assert early.error == "REBALANCE_IN_PROGRESS"
    assert scene.sync(leader).error == "REBALANCE_IN_PROGRESS"


@pytest.mark.parametrize(
    ("log_error", "error"),
    [
        (KafkaStorageError(), "NOT_COORDINATOR"),
        (NotEnoughReplicas(), "COORDINATOR_NOT_AVAILABLE"),
        (MessageTooLarge(), "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_assignment_that_cannot_be_stored_is_discarded(scene, two, log_error, error):
    leader, follower = two
    early = scene.sync(follower)
    scene.log.failure = log_error
    own = scene.sync(leader, {leader: b"left", follower: b"right"})
    assert (own.error, early.error) == (error, error)
    assert scene.state == "PreparingRebalance"


def test_assignment_is_sent_after_replication(scene, two):
    leader, follower = two
    scene.log.is_held = True
    waiting = [scene.sync(follower), scene.sync(leader, {leader: b"left", follower: b"right"})]
    assert [each.error for each in waiting] == ["waiting", "waiting"]
    scene.log.release()
    assert [each.result.assignment for each in waiting] == [b"right", b"left"]


def test_assignment_that_is_not_replicated_in_time_is_discarded(scene, two):
    leader, follower = two
    scene.log.is_held = True
    waiting = scene.sync(leader, {leader: b"left", follower: b"right"})
    scene.log.release(RequestTimedOut())
    assert waiting.error == "REBALANCE_IN_PROGRESS"
    assert scene.state == "PreparingRebalance"


def test_member_that_never_syncs_is_removed_after_the_rebalance_timeout(scene, two):
    leader, follower = two
    scene.sync(leader, {leader: b"left", follower: b"right"})
    for _ in range(int(REBALANCE_MS / SESSION_MS) + 1):
        scene.heartbeat(leader)
        scene.heartbeat(follower)
        scene.pass_ms(SESSION_MS - 1)
    assert scene.heartbeat(follower) == "UNKNOWN_MEMBER_ID"
    assert scene.state == "PreparingRebalance"


def test_leader_that_never_assigns_is_replaced(scene, two):
    leader, follower = two
    early = scene.sync(follower)
    for _ in range(int(REBALANCE_MS / SESSION_MS) + 1):
        scene.heartbeat(leader)
        scene.pass_ms(SESSION_MS - 1)
    assert early.error == "REBALANCE_IN_PROGRESS"
    assert scene.join(follower).result.leader == follower


def test_sync_waiting_for_replication_fails_when_a_new_rebalance_starts(scene, two):
    leader, follower = two
    scene.log.is_held = True
    waiting = [scene.sync(follower), scene.sync(leader, {leader: b"left", follower: b"right"})]
    scene.join()
    assert [each.error for each in waiting] == ["REBALANCE_IN_PROGRESS"] * 2
    scene.log.release()
    assert scene.state == "PreparingRebalance"


def test_waiting_sync_of_a_removed_member_gets_an_error(scene):
    joins = [scene.join(), scene.join(instance_id="static")]
    scene.pass_ms(1)
    follower = joins[1].result.member_id
    waiting = scene.sync(follower, instance_id="static")
    scene.leave("", "static")
    assert waiting.error == "UNKNOWN_MEMBER_ID"


def test_sync_before_replication_waits_too(scene, two):
    leader, follower = two
    scene.log.is_held = True
    scene.sync(leader, {leader: b"left", follower: b"right"})
    late, again = scene.sync(follower), scene.sync(leader, {leader: b"other"})
    assert (late.error, again.error) == ("waiting", "waiting")
    scene.log.release()
    assert (late.result.assignment, again.result.assignment) == (b"right", b"left")
