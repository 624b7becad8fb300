"""A coordinator loads its partition when it is elected and unloads it when it resigns."""

import pytest

from odradek.broker.coordinator.partition_log import CoordinatorPartitionLog
from odradek.broker.groups.group import Committer
from odradek.broker.groups.offset_commits import (
    MAX_TOMBSTONES_PER_BATCH,
    OffsetCommitEntry,
    TransactionalProducer,
    commit_offsets,
    commit_transactional_offsets,
)
from odradek.broker.groups.offset_expiry import cleanup_expired_offsets
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
PARTITION = ("events", 0)


def commit_offset(scene, group="g", offset=5):
    shard = scene.groups.shard(group)
    commit_offsets(
        shard, group, Committer("", None, -1), [OffsetCommitEntry(PARTITION, offset, 1, "half", 3)]
    )


def committed_offset(scene, group="g"):
    return scene.groups.shard(group).offsets[group].committed[PARTITION].offset


async def test_leader_of_a_new_partition_is_coordinator_at_once(tmp_path):
    scene = Coordinating(tmp_path)
    assert not scene.groups.runtime.is_loading
    commit_offset(scene)
    assert committed_offset(scene) == 5


async def test_broker_that_does_not_lead_the_partition_is_not_coordinator(tmp_path):
    scene = Coordinating(tmp_path, partitions=0)
    with pytest.raises(NotCoordinator):
        scene.groups.runtime.shard(0)
    scene.lead(leader=OTHER, replicas=(OTHER, 1))
    with pytest.raises(NotCoordinator):
        scene.groups.runtime.shard(0)


async def test_groups_are_unloaded_on_resignation_and_loaded_on_reelection(tmp_path):
    scene = Coordinating(tmp_path)
    commit_offset(scene)
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    with pytest.raises(NotCoordinator):
        scene.groups.shard("g")
    scene.lead(epoch=2)
    with pytest.raises(CoordinatorLoadInProgress):
        scene.groups.shard("g")
    await scene.settled()
    assert committed_offset(scene) == 5


async def test_memory_callbacks_report_loading_and_unloading(tmp_path):
    scene = Coordinating(tmp_path)
    commit_offset(scene)
    assert scene.memory == []  # the partition was new, so nothing was loaded
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    assert scene.memory == ["dropped"]
    scene.lead(epoch=2)
    assert scene.memory == ["dropped"]
    await scene.settled()
    assert scene.memory == ["dropped", "loaded"]


async def test_new_epoch_of_the_same_leader_loads_nothing(tmp_path):
    scene = Coordinating(tmp_path)
    commit_offset(scene)
    shard = scene.groups.shard("g")
    scene.lead(epoch=1)
    assert scene.groups.shard("g") is shard
    commit_offset(scene, offset=6)
    assert committed_offset(scene) == 6


async def test_resignation_during_loading_leaves_nothing_behind(tmp_path):
    scene = Coordinating(tmp_path)
    commit_offset(scene)
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)
    scene.lead(epoch=3, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=4)
    await scene.settled()
    assert committed_offset(scene) == 5
    assert len(list(scene.groups)) == 1


async def test_requests_are_rejected_until_the_metadata_has_the_topic(tmp_path):
    """A broker learns first that it leads. Groups would be looked up elsewhere, without topics."""
    scene = Coordinating(tmp_path)
    commit_offset(scene)
    known = {*scene.hosting.known.partitions}
    scene.hosting.known.partitions.clear()
    with pytest.raises(NotCoordinator):
        scene.groups.shard("g")
    scene.hosting.known.partitions |= known
    assert committed_offset(scene) == 5


async def test_stopped_partition_has_no_coordinator(tmp_path):
    scene = Coordinating(tmp_path)
    partition = TopicPartition(CONSUMER_OFFSETS, 0)
    scene.hosting.replicas.stop(partition, leader_epoch=-1, is_deleted=False)
    with pytest.raises(NotCoordinator):
        scene.groups.shard("g")


async def test_partition_in_a_failed_directory_has_no_coordinator(tmp_path):
    scene = Coordinating(tmp_path)
    partition = scene.hosting.replicas.partition(CONSUMER_OFFSETS, 0)
    scene.hosting.replicas.handle_log_dir_failure(partition.hosted_log.directory)
    with pytest.raises(NotCoordinator):
        scene.groups.shard("g")


async def test_corrupt_partition_is_not_served(tmp_path):
    scene = Coordinating(tmp_path)
    commit_offset(scene)
    partition = scene.hosting.replicas.partition(CONSUMER_OFFSETS, 0)
    damage(partition)
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)
    await scene.settled()
    with pytest.raises(NotCoordinator):
        scene.groups.shard("g")
    assert not scene.groups.runtime.is_loading


def duplicate_instance_record(key):
    """A group in which two members have one instance id, which no broker writes."""
    members = [
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
        members=members,
    )
    return key, group_value(value)


async def test_invalid_record_fails_the_loading_and_is_logged_once(tmp_path, caplog):
    scene = Coordinating(tmp_path)
    commit_offset(scene)
    scene.groups.shard("g").log.append([duplicate_instance_record(group_key("odd"))])
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)
    with pytest.raises(AssertionError, match="one"):
        await scene.settled()
    with pytest.raises(NotCoordinator, match="cannot be loaded"):
        scene.groups.shard("g")
    assert not scene.groups.runtime.is_loading
    (logged,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert logged.getMessage() == "Task 'loading __consumer_offsets-0' failed"


async def test_failed_loading_is_retried_on_reelection(tmp_path):
    scene = Coordinating(tmp_path)
    commit_offset(scene)
    scene.groups.shard("g").log.append([duplicate_instance_record(group_key("odd"))])
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    partition = scene.lead(epoch=2)
    with pytest.raises(AssertionError):
        await scene.settled()
    scene.started.clear()
    CoordinatorPartitionLog(partition, scene.means).append([(group_key("odd"), None)])
    scene.lead(epoch=3, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=4)
    await scene.settled()
    assert committed_offset(scene) == 5


async def test_records_of_unknown_types_are_skipped(tmp_path):
    scene = Coordinating(tmp_path)
    commit_offset(scene)
    scene.groups.shard("g").log.append([(b"\0\x63what", b"\0\0ever")])
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)
    await scene.settled()
    assert committed_offset(scene) == 5


async def test_offsets_of_deleted_partitions_are_removed(tmp_path):
    scene = Coordinating(tmp_path)
    commit_offset(scene)
    scene.groups.on_partitions_deleted([TopicPartition(*PARTITION)])
    await scene.settled()
    assert not scene.groups.shard("g").offsets


async def test_offsets_of_partitions_deleted_during_loading_are_removed(tmp_path):
    scene = Coordinating(tmp_path)
    commit_offset(scene)
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)
    scene.groups.on_partitions_deleted([TopicPartition(*PARTITION)])
    loading, *_ = scene.started
    await loading
    commit_offset(scene, "other", offset=1)  # of a new topic with the same name
    await scene.settled()
    shard = scene.groups.shard("g")
    assert [*shard.offsets] == ["other"]


def commit_many_offsets(scene):
    commits = [
        OffsetCommitEntry(("events", number), 5, 1, "", 3)
        for number in range(10 * MAX_TOMBSTONES_PER_BATCH)
    ]
    commit_offsets(scene.groups.shard("g"), "g", Committer("", None, -1), commits)
    return [TopicPartition(*each.partition) for each in commits]


@pytest.mark.usefixtures("short_turns")
async def test_expiring_many_offsets_yields_to_the_event_loop(tmp_path):
    scene = Coordinating(tmp_path, retention_minutes=1)
    commit_many_offsets(scene)
    _, slices = await in_turns(scene.groups.cleanup_group_metadata())
    assert slices > 9
    assert not scene.groups.shard("g").offsets


@pytest.mark.usefixtures("short_turns")
async def test_removing_offsets_of_many_partitions_yields_to_the_event_loop(tmp_path):
    scene = Coordinating(tmp_path)
    scene.groups.on_partitions_deleted(commit_many_offsets(scene))
    (deleting,) = scene.started
    _, slices = await in_turns(deleting)
    assert slices > 9
    assert not scene.groups.shard("g").offsets


async def test_offset_committed_after_a_partition_deletion_is_kept(tmp_path):
    """A new topic of the same name may exist before all old offsets are removed."""
    scene = Coordinating(tmp_path)
    commit_many_offsets(scene)
    scene.groups.on_partitions_deleted([TopicPartition(*PARTITION)])
    commit_offset(scene, offset=0)
    await scene.settled()
    assert committed_offset(scene) == 0


async def test_transaction_that_ends_during_loading_is_applied(tmp_path):
    scene = Coordinating(tmp_path)
    new, outside = OffsetCommitEntry(PARTITION, 9, 1, "", 3), Committer("", None, -1)
    commit_transactional_offsets(
        scene.groups.shard("g"), "g", outside, TransactionalProducer(7, 0), [new]
    )
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)
    scene.groups.on_transaction_completed(0, 7, is_commit=True)
    await scene.settled()
    assert committed_offset(scene) == 9


async def test_cleanup_of_an_unloaded_shard_deletes_nothing(tmp_path):
    scene = Coordinating(tmp_path, retention_minutes=1)
    commit_offset(scene)
    old_shard = scene.groups.shard("g")
    scene.lead(epoch=1, leader=OTHER, replicas=(OTHER, 1))
    scene.lead(epoch=2)
    await scene.settled()
    end = old_shard.log.log_end_offset
    assert [*cleanup_expired_offsets(old_shard, "g")]
    assert old_shard.log.log_end_offset == end
