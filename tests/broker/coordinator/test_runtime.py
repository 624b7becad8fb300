"""Becoming the coordinator of a partition, and ceasing to be."""

import pytest

from odradek.broker.coordinator.partition_log import PartitionLog
from odradek.broker.groups.committing import (
    AT_ONCE,
    InTransaction,
    NewCommit,
    commit,
    commit_in_transaction,
)
from odradek.broker.groups.group import Committer
from odradek.broker.groups.offset_expiry import forgetting_unused
from odradek.broker.groups.records import group_key, group_value
from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS
from odradek.protocol.errors import (
    CoordinatorLoadInProgress,
    NotCoordinator,
)
from odradek.protocol.internal.group_log import GroupMetadataValue
from odradek.protocol.types import TopicPartition
from tests.support.group_coordinators import Coordinating, damage
from tests.support.turn_counting import in_turns

OTHER = 2
PLACE = ("events", 0)


def store(scene, group="g", offset=5):
    shard = scene.groups.shard(group)
    commit(shard, group, Committer("", None, -1), [NewCommit(PLACE, offset, 1, "half", 3)])


def stored(scene, group="g"):
    return scene.groups.shard(group).offsets[group].committed[PLACE].offset


async def test_whoever_leads_a_new_partition_coordinates_at_once(tmp_path):
    scene = Coordinating(tmp_path)
    assert not scene.groups.shards.is_loading
    store(scene)
    assert stored(scene) == 5


async def test_nobody_else_does(tmp_path):
    scene = Coordinating(tmp_path, partitions=0)
    with pytest.raises(NotCoordinator):
        scene.groups.shards.shard(0)
    scene.lead(leader=OTHER, replicas=(OTHER, 1))
    with pytest.raises(NotCoordinator):
        scene.groups.shards.shard(0)


async def test_when_leadership_leaves_the_groups_are_dropped_and_loaded_when_it_returns(tmp_path):
    scene = Coordinating(tmp_path)
    store(scene)
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    with pytest.raises(NotCoordinator):
        scene.groups.shard("g")
    scene.lead(epoch=2)
    with pytest.raises(CoordinatorLoadInProgress):
        scene.groups.shard("g")
    await scene.settled()
    assert stored(scene) == 5


async def test_whoever_looks_after_memory_is_told_what_is_loaded_and_dropped(tmp_path):
    scene = Coordinating(tmp_path)
    store(scene)
    assert scene.memory == []  # it was new, so that nothing has come yet
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    assert scene.memory == ["dropped"]
    scene.lead(epoch=2)
    assert scene.memory == ["dropped"]
    await scene.settled()
    assert scene.memory == ["dropped", "loaded"]


async def test_another_epoch_of_the_same_leader_loads_nothing(tmp_path):
    scene = Coordinating(tmp_path)
    store(scene)
    shard = scene.groups.shard("g")
    scene.lead(epoch=1)
    assert scene.groups.shard("g") is shard
    store(scene, offset=6)
    assert stored(scene) == 6


async def test_leadership_that_goes_while_it_loads_leaves_nothing_behind(tmp_path):
    scene = Coordinating(tmp_path)
    store(scene)
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)
    scene.lead(epoch=3, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=4)
    await scene.settled()
    assert stored(scene) == 5
    assert len(list(scene.groups)) == 1


async def test_nobody_is_answered_before_the_picture_has_the_topic(tmp_path):
    """What it leads a broker hears first: groups would be sought elsewhere, and find no topics."""
    scene = Coordinating(tmp_path)
    store(scene)
    known = {*scene.hosting.known.partitions}
    scene.hosting.known.partitions.clear()
    with pytest.raises(NotCoordinator):
        scene.groups.shard("g")
    scene.hosting.known.partitions |= known
    assert stored(scene) == 5


async def test_a_partition_that_is_stopped_is_no_longer_ours(tmp_path):
    scene = Coordinating(tmp_path)
    which = TopicPartition(CONSUMER_OFFSETS, 0)
    scene.hosting.replicas.stop(which, leader_epoch=-1, is_deleted=False)
    with pytest.raises(NotCoordinator):
        scene.groups.shard("g")


async def test_one_whose_directory_fails_is_neither(tmp_path):
    scene = Coordinating(tmp_path)
    partition = scene.hosting.replicas.partition(CONSUMER_OFFSETS, 0)
    scene.hosting.replicas.directory_failed(partition.hosted.directory)
    with pytest.raises(NotCoordinator):
        scene.groups.shard("g")


async def test_what_cannot_be_read_is_not_served(tmp_path):
    scene = Coordinating(tmp_path)
    store(scene)
    partition = scene.hosting.replicas.partition(CONSUMER_OFFSETS, 0)
    damage(partition)
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)
    await scene.settled()
    with pytest.raises(NotCoordinator):
        scene.groups.shard("g")
    assert not scene.groups.shards.is_loading


def of_twins(key):
    """A group in which one instance is two members, as nobody ever writes it."""
    twins = [
        GroupMetadataValue.MemberMetadata(
            member_id=each,
            group_instance_id="one",
            client_id="",
            client_host="",
            rebalance_timeout=1,
            session_timeout=1,
            subscription=b"",
            assignment=b"",
        )
        for each in ("a", "b")
    ]
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader="a",
        current_state_timestamp=1,
        members=twins,
    )
    return key, group_value(value)


async def test_a_record_that_leads_nowhere_ends_the_loading_and_is_logged_once(tmp_path, caplog):
    scene = Coordinating(tmp_path)
    store(scene)
    scene.groups.shard("g").log.append([of_twins(group_key("odd"))])
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)
    with pytest.raises(AssertionError, match="one"):
        await scene.settled()
    with pytest.raises(NotCoordinator, match="cannot be loaded"):
        scene.groups.shard("g")
    assert not scene.groups.shards.is_loading
    (line,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert line.getMessage() == "loading __consumer_offsets-0 failed"


async def test_what_could_not_be_loaded_is_tried_again_when_leadership_returns(tmp_path):
    scene = Coordinating(tmp_path)
    store(scene)
    scene.groups.shard("g").log.append([of_twins(group_key("odd"))])
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    partition = scene.lead(epoch=2)
    with pytest.raises(AssertionError):
        await scene.settled()
    scene.started.clear()
    PartitionLog(partition, scene.means).append([(group_key("odd"), None)])
    scene.lead(epoch=3, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=4)
    await scene.settled()
    assert stored(scene) == 5


async def test_records_that_nobody_knows_are_passed_over(tmp_path):
    scene = Coordinating(tmp_path)
    store(scene)
    scene.groups.shard("g").log.append([(b"\0\x63what", b"\0\0ever")])
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)
    await scene.settled()
    assert stored(scene) == 5


async def test_offsets_go_with_their_partitions(tmp_path):
    scene = Coordinating(tmp_path)
    store(scene)
    scene.groups.partitions_deleted([TopicPartition(*PLACE)])
    await scene.settled()
    assert not scene.groups.shard("g").offsets


async def test_offsets_go_with_partitions_that_are_deleted_while_they_are_loaded(tmp_path):
    scene = Coordinating(tmp_path)
    store(scene)
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)
    scene.groups.partitions_deleted([TopicPartition(*PLACE)])
    loading, *_ = scene.started
    await loading
    store(scene, "other", offset=1)  # of a topic of the same name, made since
    await scene.settled()
    shard = scene.groups.shard("g")
    assert [*shard.offsets] == ["other"]


def store_many(scene):
    commits = [NewCommit(("events", number), 5, 1, "", 3) for number in range(10 * AT_ONCE)]
    commit(scene.groups.shard("g"), "g", Committer("", None, -1), commits)
    return [TopicPartition(*each.place) for each in commits]


@pytest.mark.usefixtures("short_turns")
async def test_others_have_their_turns_while_many_offsets_are_forgotten(tmp_path):
    scene = Coordinating(tmp_path, retention_minutes=1)
    store_many(scene)
    _, turns = await in_turns(scene.groups.forget_unused())
    assert turns > 9
    assert not scene.groups.shard("g").offsets


@pytest.mark.usefixtures("short_turns")
async def test_others_have_their_turns_while_offsets_of_many_partitions_go(tmp_path):
    scene = Coordinating(tmp_path)
    scene.groups.partitions_deleted(store_many(scene))
    (deleting,) = scene.started
    _, turns = await in_turns(deleting)
    assert turns > 9
    assert not scene.groups.shard("g").offsets


async def test_what_is_committed_while_offsets_of_deleted_partitions_go_stays(tmp_path):
    """A topic of the same name may be there before all of them are gone."""
    scene = Coordinating(tmp_path)
    store_many(scene)
    scene.groups.partitions_deleted([TopicPartition(*PLACE)])
    store(scene, offset=0)
    await scene.settled()
    assert stored(scene) == 0


async def test_a_transaction_that_ends_while_its_offsets_are_loaded_is_not_missed(tmp_path):
    scene = Coordinating(tmp_path)
    new, outside = NewCommit(PLACE, 9, 1, "", 3), Committer("", None, -1)
    commit_in_transaction(scene.groups.shard("g"), "g", outside, InTransaction(7, 0), [new])
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)
    scene.groups.transaction_ended(0, 7, is_commit=True)
    await scene.settled()
    assert stored(scene) == 9


async def test_who_still_goes_through_groups_that_are_no_longer_ours_deletes_nothing(tmp_path):
    scene = Coordinating(tmp_path, retention_minutes=1)
    store(scene)
    before = scene.groups.shard("g")
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)
    await scene.settled()
    end = before.log.end_offset
    assert [*forgetting_unused(before, "g")]
    assert before.log.end_offset == end
