"""Offsets committed and deleted."""

import pytest

from odradek.broker.groups.committing import (
    InTransaction,
    NewCommit,
    commit,
    commit_in_transaction,
    delete_offsets,
    forgetting_partitions,
)
from odradek.broker.groups.group import Committer
from odradek.protocol.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    KafkaError,
    MessageTooLarge,
    NotLeader,
    UnknownMemberId,
)
from tests.support.group_scene import GROUP

OUTSIDE = Committer("", None, -1)
PLACE, OTHER = ("events", 0), ("other", 3)


def new(offset, place=PLACE, **fields):
    values = {"leader_epoch": 2, "metadata": "half", "committed_ms": 77, **fields}
    return NewCommit(place, offset, **values)


def offsets_in(shard, group=GROUP):
    return {place: each.offset for place, each in shard.offsets[group].committed.items()}


def test_somebody_outside_any_group_commits_and_replay_finds_all_of_it(scene):
    written = commit(scene.shard, GROUP, OUTSIDE, [new(5), new(6, OTHER, metadata="")])
    assert (written.first_offset, written.last_offset) == (0, 1)
    assert not scene.shard.groups
    replayed = scene.replayed()
    assert replayed.offsets[GROUP].committed == scene.shard.offsets[GROUP].committed
    found = replayed.offsets[GROUP].committed[PLACE]
    assert found == (5, 2, "half", 77, -1, 0)


def test_nobody_of_a_group_that_is_gone_commits(scene):
    with pytest.raises(IllegalGeneration):
        commit(scene.shard, GROUP, Committer("m", None, 3), [new(5)])
    assert not scene.shard.offsets


def test_a_group_that_only_keeps_offsets_has_no_members_to_commit(scene):
    commit(scene.shard, GROUP, OUTSIDE, [new(5)])
    with pytest.raises(UnknownMemberId):
        commit(scene.shard, GROUP, Committer("m", None, 3), [new(6)])
    assert offsets_in(scene.shard) == {PLACE: 5}


def test_where_there_is_nothing_to_commit_the_group_is_asked_all_the_same(scene):
    assert commit(scene.shard, GROUP, OUTSIDE, []) is None
    scene.stable()
    with pytest.raises(KafkaError):
        commit(scene.shard, GROUP, OUTSIDE, [])


@pytest.mark.parametrize(
    ("failure", "told"),
    [(NotLeader(), "NOT_COORDINATOR"), (MessageTooLarge(), "INVALID_COMMIT_OFFSET_SIZE")],
)
def test_what_cannot_be_written_is_not_committed(scene, failure, told):
    scene.log.failure = failure
    with pytest.raises(KafkaError) as refused:
        commit(scene.shard, GROUP, OUTSIDE, [new(5)])
    assert refused.value.error.name == told
    assert not scene.shard.offsets


class TestTransactions:
    def test_pending_until_the_marker_comes(self, scene):
        commit(scene.shard, GROUP, OUTSIDE, [new(5)])
        transaction = InTransaction(9, 0)
        commit_in_transaction(scene.shard, GROUP, OUTSIDE, transaction, [new(8), new(9, OTHER)])
        assert offsets_in(scene.shard) == {PLACE: 5}
        assert same(scene)
        scene.log.mark(9, is_commit=True)
        scene.shard.complete(9, is_commit=True)
        assert offsets_in(scene.shard) == {PLACE: 8, OTHER: 9}
        assert same(scene)

    def test_dropped_if_it_is_aborted(self, scene):
        commit_in_transaction(scene.shard, GROUP, OUTSIDE, InTransaction(9, 0), [new(8)])
        scene.log.mark(9, is_commit=False)
        scene.shard.complete(9, is_commit=False)
        assert not scene.shard.offsets
        assert same(scene)

    def test_a_transaction_may_be_about_many_groups(self, scene):
        for group in ("a", "b"):
            commit_in_transaction(scene.shard, group, OUTSIDE, InTransaction(9, 0), [new(8)])
        scene.log.mark(9, is_commit=True)
        scene.shard.complete(9, is_commit=True)
        assert offsets_in(scene.shard, "a") == offsets_in(scene.shard, "b") == {PLACE: 8}
        assert same(scene)

    def test_open_ones_are_completed_after_a_reload(self, scene):
        commit_in_transaction(scene.shard, GROUP, OUTSIDE, InTransaction(9, 0), [new(8)])
        scene.reload()
        scene.log.mark(9, is_commit=True)
        scene.shard.complete(9, is_commit=True)
        assert offsets_in(scene.shard) == {PLACE: 8}

    def test_deleting_takes_what_is_pending_too(self, scene):
        commit_in_transaction(scene.shard, GROUP, OUTSIDE, InTransaction(9, 0), [new(8)])
        delete_offsets(scene.shard, GROUP, [PLACE])
        scene.log.mark(9, is_commit=True)
        scene.shard.complete(9, is_commit=True)
        assert not scene.shard.offsets
        assert same(scene)

    def test_a_member_of_an_old_generation_is_refused(self, scene):
        (member,) = scene.stable()
        old = Committer(member, None, 0)
        with pytest.raises(IllegalGeneration):
            commit_in_transaction(scene.shard, GROUP, old, InTransaction(9, 0), [new(8)])


class TestDeleting:
    def test_those_that_are_there_and_are_not_needed(self, scene):
        commit(scene.shard, GROUP, OUTSIDE, [new(5), new(6, OTHER)])
        scene.stable(topics=("events",))
        outcomes = delete_offsets(scene.shard, GROUP, [PLACE, OTHER, ("absent", 0)])
        assert isinstance(outcomes[PLACE], GroupSubscribedToTopic)
        assert outcomes[OTHER] is outcomes["absent", 0] is None
        assert offsets_in(scene.shard) == {PLACE: 5}
        assert same(scene)

    def test_a_group_without_any_is_not_there(self, scene):
        with pytest.raises(GroupIdNotFound):
            delete_offsets(scene.shard, GROUP, [PLACE])

    def test_a_group_that_is_left_without_any_and_without_members_goes_too(self, scene):
        commit(scene.shard, GROUP, OUTSIDE, [new(5), new(6, OTHER)])
        (member,) = scene.stable()
        scene.leave(member)
        delete_offsets(scene.shard, GROUP, [PLACE])
        assert GROUP in scene.shard.groups
        delete_offsets(scene.shard, GROUP, [OTHER])
        assert not scene.shard.groups
        assert not scene.replayed().groups

    def test_many_are_deleted_in_several_batches(self, scene):
        places = [("events", number) for number in range(2500)]
        commit(scene.shard, GROUP, OUTSIDE, [new(5, place) for place in places])
        delete_offsets(scene.shard, GROUP, places)
        assert [batch.count for batch in scene.log.batches] == [2500, 500, 500, 500, 500, 500]
        assert same(scene)

    def test_those_of_partitions_that_are_gone(self, scene):
        commit(scene.shard, GROUP, OUTSIDE, [new(5), new(6, OTHER)])
        assert [*forgetting_partitions(scene.shard, GROUP, [PLACE], before=2)]
        assert offsets_in(scene.shard) == {OTHER: 6}

    def test_not_what_is_committed_after_they_have_gone(self, scene):
        commit(scene.shard, GROUP, OUTSIDE, [new(5), new(6, OTHER)])
        forgetting = forgetting_partitions(scene.shard, GROUP, [PLACE, OTHER], before=2)
        commit(scene.shard, GROUP, OUTSIDE, [new(0)])
        transaction = InTransaction(9, 0)
        commit_in_transaction(scene.shard, GROUP, OUTSIDE, transaction, [new(1, OTHER)])
        assert [*forgetting]
        assert offsets_in(scene.shard) == {PLACE: 0, OTHER: 6}
        assert same(scene)

    def test_what_cannot_be_written_stays(self, scene):
        commit(scene.shard, GROUP, OUTSIDE, [new(5)])
        scene.log.failure = NotLeader()
        assert not [*forgetting_partitions(scene.shard, GROUP, [PLACE], before=1)]
        assert offsets_in(scene.shard) == {PLACE: 5}


def same(scene):
    """Whether what is known is what the log amounts to."""
    replayed = scene.replayed().offsets
    known = scene.shard.offsets
    assert replayed.keys() == known.keys()
    for group_id, offsets in known.items():
        assert replayed[group_id].committed == offsets.committed
        assert replayed[group_id].pending == offsets.pending
    return True
