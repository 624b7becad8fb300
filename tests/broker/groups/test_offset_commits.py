"""Committing and deleting offsets."""

import pytest

from odradek.broker.groups.group import Committer
from odradek.broker.groups.offset_commits import (
    OffsetCommitEntry,
    TransactionalProducer,
    commit_offsets,
    commit_transactional_offsets,
    delete_offsets,
    remove_deleted_partition_offsets,
)
from odradek.protocol.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    KafkaError,
    MessageTooLarge,
    NotLeaderOrFollower,
    UnknownMemberId,
)
from tests.support.group_scene import GROUP

OUTSIDE = Committer("", None, -1)
PARTITION, OTHER = ("events", 0), ("other", 3)


def new(offset, partition=PARTITION, **fields):
    values = {"leader_epoch": 2, "metadata": "half", "commit_timestamp_ms": 77, **fields}
    return OffsetCommitEntry(partition, offset, **values)


def committed_offsets(shard, group=GROUP):
    return {partition: each.offset for partition, each in shard.offsets[group].committed.items()}


def test_simple_consumer_commits_and_replay_restores_the_offsets(scene):
    append_info = commit_offsets(scene.shard, GROUP, OUTSIDE, [new(5), new(6, OTHER, metadata="")])
    assert (append_info.first_offset, append_info.last_offset) == (0, 1)
    assert not scene.shard.groups
    replayed = scene.replayed()
    assert replayed.offsets[GROUP].committed == scene.shard.offsets[GROUP].committed
    committed = replayed.offsets[GROUP].committed[PARTITION]
    assert committed == (5, 2, "half", 77, -1, 0)


def test_member_of_an_unknown_group_cannot_commit(scene):
    with pytest.raises(IllegalGeneration):
        commit_offsets(scene.shard, GROUP, Committer("m", None, 3), [new(5)])
    assert not scene.shard.offsets


def test_member_cannot_commit_to_a_group_without_members(scene):
    commit_offsets(scene.shard, GROUP, OUTSIDE, [new(5)])
    with pytest.raises(UnknownMemberId):
        commit_offsets(scene.shard, GROUP, Committer("m", None, 3), [new(6)])
    assert committed_offsets(scene.shard) == {PARTITION: 5}


def test_commit_without_offsets_is_still_validated(scene):
    assert commit_offsets(scene.shard, GROUP, OUTSIDE, []) is None
    scene.stable()
    with pytest.raises(KafkaError):
        commit_offsets(scene.shard, GROUP, OUTSIDE, [])


@pytest.mark.parametrize(
    ("log_error", "expected"),
    [(NotLeaderOrFollower(), "NOT_COORDINATOR"), (MessageTooLarge(), "INVALID_COMMIT_OFFSET_SIZE")],
)
def test_commit_that_cannot_be_appended_is_not_applied(scene, log_error, expected):
    scene.log.failure = log_error
    with pytest.raises(KafkaError) as caught:
        commit_offsets(scene.shard, GROUP, OUTSIDE, [new(5)])
    assert caught.value.error_code.name == expected
    assert not scene.shard.offsets


class TestTransactions:
    def test_offsets_are_pending_until_the_marker(self, scene):
        commit_offsets(scene.shard, GROUP, OUTSIDE, [new(5)])
        transaction = TransactionalProducer(9, 0)
        commit_transactional_offsets(
            scene.shard, GROUP, OUTSIDE, transaction, [new(8), new(9, OTHER)]
        )
        assert committed_offsets(scene.shard) == {PARTITION: 5}
        assert is_same_after_replay(scene)
        scene.log.mark(9, is_commit=True)
        scene.shard.complete_transaction(9, is_commit=True)
        assert committed_offsets(scene.shard) == {PARTITION: 8, OTHER: 9}
        assert is_same_after_replay(scene)

    def test_offsets_of_an_aborted_transaction_are_dropped(self, scene):
        commit_transactional_offsets(
            scene.shard, GROUP, OUTSIDE, TransactionalProducer(9, 0), [new(8)]
        )
        scene.log.mark(9, is_commit=False)
        scene.shard.complete_transaction(9, is_commit=False)
        assert not scene.shard.offsets
        assert is_same_after_replay(scene)

    def test_transaction_can_span_several_groups(self, scene):
        for group in ("a", "b"):
            commit_transactional_offsets(
                scene.shard, group, OUTSIDE, TransactionalProducer(9, 0), [new(8)]
            )
        scene.log.mark(9, is_commit=True)
        scene.shard.complete_transaction(9, is_commit=True)
        assert (
            committed_offsets(scene.shard, "a")
            == committed_offsets(scene.shard, "b")
            == {PARTITION: 8}
        )
        assert is_same_after_replay(scene)

    def test_open_transaction_is_completed_after_a_reload(self, scene):
        commit_transactional_offsets(
            scene.shard, GROUP, OUTSIDE, TransactionalProducer(9, 0), [new(8)]
        )
        scene.reload()
        scene.log.mark(9, is_commit=True)
        scene.shard.complete_transaction(9, is_commit=True)
        assert committed_offsets(scene.shard) == {PARTITION: 8}

    def test_delete_removes_pending_offsets(self, scene):
        commit_transactional_offsets(
            scene.shard, GROUP, OUTSIDE, TransactionalProducer(9, 0), [new(8)]
        )
        delete_offsets(scene.shard, GROUP, [PARTITION])
        scene.log.mark(9, is_commit=True)
        scene.shard.complete_transaction(9, is_commit=True)
        assert not scene.shard.offsets
        assert is_same_after_replay(scene)

    def test_commit_with_an_old_generation_is_rejected(self, scene):
        (member,) = scene.stable()
        old = Committer(member, None, 0)
        with pytest.raises(IllegalGeneration):
            commit_transactional_offsets(
                scene.shard, GROUP, old, TransactionalProducer(9, 0), [new(8)]
            )


class TestDelete:
    def test_only_offsets_of_unsubscribed_topics_are_deleted(self, scene):
        commit_offsets(scene.shard, GROUP, OUTSIDE, [new(5), new(6, OTHER)])
        scene.stable(topics=("events",))
        outcomes = delete_offsets(scene.shard, GROUP, [PARTITION, OTHER, ("absent", 0)])
        assert isinstance(outcomes[PARTITION], GroupSubscribedToTopic)
        assert outcomes[OTHER] is outcomes["absent", 0] is None
        assert committed_offsets(scene.shard) == {PARTITION: 5}
        assert is_same_after_replay(scene)

    def test_group_without_offsets_is_not_found(self, scene):
        with pytest.raises(GroupIdNotFound):
            delete_offsets(scene.shard, GROUP, [PARTITION])

    def test_group_without_offsets_and_members_is_deleted(self, scene):
        commit_offsets(scene.shard, GROUP, OUTSIDE, [new(5), new(6, OTHER)])
        (member,) = scene.stable()
        scene.leave(member)
        delete_offsets(scene.shard, GROUP, [PARTITION])
        assert GROUP in scene.shard.groups
        delete_offsets(scene.shard, GROUP, [OTHER])
        assert not scene.shard.groups
        assert not scene.replayed().groups

    def test_many_offsets_are_deleted_in_several_batches(self, scene):
        partitions = [("events", number) for number in range(2500)]
        commit_offsets(scene.shard, GROUP, OUTSIDE, [new(5, partition) for partition in partitions])
        delete_offsets(scene.shard, GROUP, partitions)
        assert [batch.count for batch in scene.log.batches] == [2500, 500, 500, 500, 500, 500]
        assert is_same_after_replay(scene)

    def test_offsets_of_deleted_partitions_are_removed(self, scene):
        commit_offsets(scene.shard, GROUP, OUTSIDE, [new(5), new(6, OTHER)])
        assert [
            *remove_deleted_partition_offsets(scene.shard, GROUP, [PARTITION], before_log_offset=2)
        ]
        assert committed_offsets(scene.shard) == {OTHER: 6}

    def test_offsets_committed_after_the_partition_deletion_are_kept(self, scene):
        commit_offsets(scene.shard, GROUP, OUTSIDE, [new(5), new(6, OTHER)])
        removal = remove_deleted_partition_offsets(
            scene.shard, GROUP, [PARTITION, OTHER], before_log_offset=2
        )
        commit_offsets(scene.shard, GROUP, OUTSIDE, [new(0)])
        transaction = TransactionalProducer(9, 0)
        commit_transactional_offsets(scene.shard, GROUP, OUTSIDE, transaction, [new(1, OTHER)])
        assert [*removal]
        assert committed_offsets(scene.shard) == {PARTITION: 0, OTHER: 6}
        assert is_same_after_replay(scene)

    def test_offsets_are_kept_if_the_log_cannot_be_written(self, scene):
        commit_offsets(scene.shard, GROUP, OUTSIDE, [new(5)])
        scene.log.failure = NotLeaderOrFollower()
        assert not [
            *remove_deleted_partition_offsets(scene.shard, GROUP, [PARTITION], before_log_offset=1)
        ]
        assert committed_offsets(scene.shard) == {PARTITION: 5}


def is_same_after_replay(scene):
    """Check that the state equals a replay of the log."""
    replayed = scene.replayed().offsets
    current = scene.shard.offsets
    assert replayed.keys() == current.keys()
    for group_id, offsets in current.items():
        assert replayed[group_id].committed == offsets.committed
        assert replayed[group_id].pending == offsets.pending
    return True
