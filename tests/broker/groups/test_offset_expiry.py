"""The expiration of offsets, and of groups without offsets."""

import pytest

from odradek.broker.groups.group import Committer
from odradek.broker.groups.offset_commits import (
    MAX_TOMBSTONES_PER_BATCH,
    OffsetCommitEntry,
    TransactionalProducer,
    commit_offsets,
    commit_transactional_offsets,
    delete_offsets,
)
from odradek.broker.groups.offset_expiry import cleanup_expired_offsets, delete_group
from odradek.protocol.errors import (
    GroupIdNotFound,
    KafkaError,
    KafkaStorageError,
    NonEmptyGroup,
    NotLeaderOrFollower,
)
from tests.support.group_scene import EPOCH_MS, GROUP

OUTSIDE = Committer("", None, -1)
MINUTE_MS = 60_000
LONG_MS = 1_000_000_000
PARTITION, OTHER = ("events", 0), ("other", 0)


@pytest.fixture
def scene(new_scene):
    return new_scene(retention_minutes=10)


def commit_at(scene, *partitions, at_ms=0, expires_ms=-1, committer=OUTSIDE):
    commits = [
        OffsetCommitEntry(partition, 5, -1, "", EPOCH_MS + at_ms, expires_ms)
        for partition in partitions
    ]
    commit_offsets(scene.shard, GROUP, committer, commits)


def remaining_offsets(scene):
    list(cleanup_expired_offsets(scene.shard, GROUP))
    offsets = scene.shard.offsets.get(GROUP)
    return set() if offsets is None else set(offsets.committed)


def test_offset_without_members_expires_from_its_commit(scene):
    commit_at(scene, PARTITION)
    commit_at(scene, OTHER, at_ms=5 * MINUTE_MS)
    scene.pass_ms(10 * MINUTE_MS - 1)
    assert remaining_offsets(scene) == {PARTITION, OTHER}
    scene.pass_ms(2)
    assert remaining_offsets(scene) == {OTHER}
    assert set(scene.replayed().offsets[GROUP].committed) == {OTHER}


def test_explicit_expiration_time_takes_precedence(scene):
    commit_at(scene, PARTITION, expires_ms=EPOCH_MS + MINUTE_MS)
    scene.pass_ms(MINUTE_MS - 1)
    assert remaining_offsets(scene) == {PARTITION}
    scene.pass_ms(2)
    assert remaining_offsets(scene) == set()


def test_offset_of_a_group_expires_from_when_the_group_became_empty(scene):
    commit_at(scene, PARTITION)
    (member,) = scene.stable(session_ms=LONG_MS // 1000)
    for _ in range(20):
        scene.pass_ms(MINUTE_MS)
        scene.heartbeat(member)
    assert remaining_offsets(scene) == {PARTITION}
    scene.leave(member)
    scene.pass_ms(10 * MINUTE_MS - 1)
    assert remaining_offsets(scene) == {PARTITION}
    scene.pass_ms(2)
    assert remaining_offsets(scene) == set()
    assert GROUP not in scene.shard.groups
    assert GROUP not in scene.replayed().groups


def test_offsets_of_unsubscribed_topics_expire_while_there_are_members(scene):
    commit_at(scene, PARTITION, OTHER)
    (member,) = scene.stable(topics=("events",))
    for _ in range(100):
        scene.pass_ms(9_000)
        scene.heartbeat(member)
    assert remaining_offsets(scene) == {PARTITION}


def test_offset_with_a_pending_transaction_does_not_expire(scene):
    commit_at(scene, PARTITION)
    pending = [OffsetCommitEntry(PARTITION, 9, -1, "", EPOCH_MS)]
    commit_transactional_offsets(scene.shard, GROUP, OUTSIDE, TransactionalProducer(1, 0), pending)
    scene.pass_ms(20 * MINUTE_MS)
    assert remaining_offsets(scene) == {PARTITION}


def test_empty_group_without_offsets_is_removed(scene):
    (member,) = scene.stable()
    scene.leave(member)
    assert [*cleanup_expired_offsets(scene.shard, GROUP)]
    assert GROUP not in scene.shard.groups
    assert not scene.replayed().groups


def test_expiration_is_retried_after_a_log_error(scene):
    commit_at(scene, PARTITION)
    scene.pass_ms(20 * MINUTE_MS)
    scene.log.failure = KafkaStorageError()
    assert remaining_offsets(scene) == {PARTITION}
    scene.log.failure = None
    assert remaining_offsets(scene) == set()


@pytest.fixture
def half_done(scene):
    """More offsets than one batch removes, and their cleanup after the first batch."""
    partitions = [("events", number) for number in range(MAX_TOMBSTONES_PER_BATCH + 2)]
    commit_at(scene, *partitions)
    scene.pass_ms(20 * MINUTE_MS)
    cleanup = cleanup_expired_offsets(scene.shard, GROUP)
    next(cleanup)
    return partitions, cleanup


def test_offset_committed_during_the_cleanup_is_kept(scene, half_done):
    partitions, cleanup = half_done
    commit_at(scene, partitions[-1], at_ms=20 * MINUTE_MS)
    assert [*cleanup]
    assert set(scene.shard.offsets[GROUP].committed) == {partitions[-1]}


def test_offset_deleted_during_the_cleanup_is_skipped(scene, half_done):
    partitions, cleanup = half_done
    delete_offsets(scene.shard, GROUP, partitions[-1:])
    assert [*cleanup]
    assert not scene.shard.offsets


def test_cleanup_of_an_unloaded_group_appends_nothing(scene, half_done):
    _, cleanup = half_done
    scene.shard.on_unloaded()
    count = len(scene.log.batches)
    assert [*cleanup]
    assert len(scene.log.batches) == count


class TestDeleteGroup:
    def test_offsets_are_deleted_with_the_group(self, scene):
        commit_at(scene, PARTITION)
        (member,) = scene.stable()
        scene.leave(member)
        delete_group(scene.shard, GROUP)
        assert not scene.shard.groups
        assert not scene.shard.offsets
        replayed = scene.replayed()
        assert not replayed.groups
        assert not replayed.offsets

    def test_group_that_never_had_members_is_deleted(self, scene):
        commit_at(scene, PARTITION)
        delete_group(scene.shard, GROUP)
        assert not scene.shard.offsets

    def test_group_with_members_is_not_deleted(self, scene):
        scene.stable()
        with pytest.raises(NonEmptyGroup):
            delete_group(scene.shard, GROUP)

    def test_unknown_group_is_not_found(self, scene):
        with pytest.raises(GroupIdNotFound):
            delete_group(scene.shard, GROUP)

    def test_log_error_becomes_a_coordinator_error(self, scene):
        (member,) = scene.stable()
        scene.leave(member)
        scene.log.failure = NotLeaderOrFollower()
        with pytest.raises(KafkaError) as caught:
            delete_group(scene.shard, GROUP)
        assert caught.value.error_code.name == "NOT_COORDINATOR"
        assert GROUP in scene.shard.groups
