"""When an offset is forgotten, and a group with it."""

import pytest

from odradek.broker.groups.committing import (
    AT_ONCE,
    InTransaction,
    NewCommit,
    commit,
    commit_in_transaction,
    delete_offsets,
)
from odradek.broker.groups.group import Committer
from odradek.broker.groups.offset_expiry import delete_group, forgetting_unused
from odradek.protocol.errors import (
    GroupIdNotFound,
    KafkaError,
    KafkaStorageError,
    NonEmptyGroup,
    NotLeader,
)
from tests.support.group_scene import EPOCH_MS, GROUP

OUTSIDE = Committer("", None, -1)
MINUTE_MS = 60_000
LONG_MS = 1_000_000_000
PLACE, OTHER = ("events", 0), ("other", 0)


@pytest.fixture
def scene(new_scene):
    return new_scene(retention_minutes=10)


def store(scene, *places, at_ms=0, expires_ms=-1, committer=OUTSIDE):
    commits = [NewCommit(place, 5, -1, "", EPOCH_MS + at_ms, expires_ms) for place in places]
    commit(scene.shard, GROUP, committer, commits)


def left(scene):
    list(forgetting_unused(scene.shard, GROUP))
    offsets = scene.shard.offsets.get(GROUP)
    return set() if offsets is None else set(offsets.committed)


def test_without_members_it_counts_from_the_commit(scene):
    store(scene, PLACE)
    store(scene, OTHER, at_ms=5 * MINUTE_MS)
    scene.pass_ms(10 * MINUTE_MS - 1)
    assert left(scene) == {PLACE, OTHER}
    scene.pass_ms(2)
    assert left(scene) == {OTHER}
    assert set(scene.replayed().offsets[GROUP].committed) == {OTHER}


def test_a_time_of_its_own_goes_before(scene):
    store(scene, PLACE, expires_ms=EPOCH_MS + MINUTE_MS)
    scene.pass_ms(MINUTE_MS - 1)
    assert left(scene) == {PLACE}
    scene.pass_ms(2)
    assert left(scene) == set()


def test_in_a_group_it_counts_from_when_the_group_has_become_empty(scene):
    store(scene, PLACE)
    (member,) = scene.stable(session_ms=LONG_MS // 1000)
    for _ in range(20):
        scene.pass_ms(MINUTE_MS)
        scene.heartbeat(member)
    assert left(scene) == {PLACE}
    scene.leave(member)
    scene.pass_ms(10 * MINUTE_MS - 1)
    assert left(scene) == {PLACE}
    scene.pass_ms(2)
    assert left(scene) == set()
    assert GROUP not in scene.shard.groups
    assert GROUP not in scene.replayed().groups


def test_topics_that_are_not_subscribed_to_expire_while_there_are_members(scene):
    store(scene, PLACE, OTHER)
    (member,) = scene.stable(topics=("events",))
    for _ in range(100):
        scene.pass_ms(9_000)
        scene.heartbeat(member)
    assert left(scene) == {PLACE}


def test_what_a_transaction_may_change_stays(scene):
    store(scene, PLACE)
    pending = [NewCommit(PLACE, 9, -1, "", EPOCH_MS)]
    commit_in_transaction(scene.shard, GROUP, OUTSIDE, InTransaction(1, 0), pending)
    scene.pass_ms(20 * MINUTE_MS)
    assert left(scene) == {PLACE}


def test_a_group_that_is_empty_and_has_no_offsets_goes(scene):
    (member,) = scene.stable()
    scene.leave(member)
    assert [*forgetting_unused(scene.shard, GROUP)]
    assert GROUP not in scene.shard.groups
    assert not scene.replayed().groups


def test_where_it_cannot_be_written_all_stays_until_the_next_time(scene):
    store(scene, PLACE)
    scene.pass_ms(20 * MINUTE_MS)
    scene.log.failure = KafkaStorageError()
    assert left(scene) == {PLACE}
    scene.log.failure = None
    assert left(scene) == set()


@pytest.fixture
def half_done(scene):
    """More offsets than are looked at at once, and who forgets them, after the first step."""
    places = [("events", number) for number in range(AT_ONCE + 2)]
    store(scene, *places)
    scene.pass_ms(20 * MINUTE_MS)
    forgetting = forgetting_unused(scene.shard, GROUP)
    next(forgetting)
    return places, forgetting


def test_what_is_committed_while_others_are_forgotten_stays(scene, half_done):
    places, forgetting = half_done
    store(scene, places[-1], at_ms=20 * MINUTE_MS)
    assert [*forgetting]
    assert set(scene.shard.offsets[GROUP].committed) == {places[-1]}


def test_what_is_deleted_while_others_are_forgotten_is_not_missed(scene, half_done):
    places, forgetting = half_done
    delete_offsets(scene.shard, GROUP, places[-1:])
    assert [*forgetting]
    assert not scene.shard.offsets


def test_a_group_that_goes_while_its_offsets_are_forgotten_leaves_nothing_to_do(scene, half_done):
    _, forgetting = half_done
    scene.shard.end()
    count = len(scene.log.batches)
    assert [*forgetting]
    assert len(scene.log.batches) == count


class TestDeletingAGroup:
    def test_with_its_offsets(self, scene):
        store(scene, PLACE)
        (member,) = scene.stable()
        scene.leave(member)
        delete_group(scene.shard, GROUP)
        assert not scene.shard.groups
        assert not scene.shard.offsets
        replayed = scene.replayed()
        assert not replayed.groups
        assert not replayed.offsets

    def test_one_that_never_had_members(self, scene):
        store(scene, PLACE)
        delete_group(scene.shard, GROUP)
        assert not scene.shard.offsets

    def test_not_one_that_has_some(self, scene):
        scene.stable()
        with pytest.raises(NonEmptyGroup):
            delete_group(scene.shard, GROUP)

    def test_nor_one_that_is_not_there(self, scene):
        with pytest.raises(GroupIdNotFound):
            delete_group(scene.shard, GROUP)

    def test_where_it_cannot_be_written_a_coordinator_is_told_of(self, scene):
        (member,) = scene.stable()
        scene.leave(member)
        scene.log.failure = NotLeader()
        with pytest.raises(KafkaError) as refused:
            delete_group(scene.shard, GROUP)
        assert refused.value.error.name == "NOT_COORDINATOR"
        assert GROUP in scene.shard.groups
