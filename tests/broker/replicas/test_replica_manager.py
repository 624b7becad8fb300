"""The partitions of a broker, as the controller assigns them and the disk stores them."""

import asyncio
from types import SimpleNamespace

import pytest

from odradek.protocol.api.update_metadata import UpdateMetadataPartitionState
from odradek.protocol.errors import (
    FencedLeaderEpoch,
    InconsistentTopicId,
    KafkaStorageError,
    NotLeaderOrFollower,
    StaleControllerEpoch,
    UnknownTopicOrPartition,
)
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage.open_segments import TooManyOpenFiles
from tests.support.hosted_partitions import BROKER, Hosting, led
from tests.support.logs import NOW_MS, records_batch

EVENTS = TopicPartition("events", 0)
OTHER = 2


def topic_id_of(number):
    return Uuid(bytes([number] * 16))


async def test_partition_without_leader_and_isr_is_unknown_or_on_another_broker(tmp_path):
    hosting = Hosting(tmp_path)
    with pytest.raises(UnknownTopicOrPartition):
        hosting.replicas.partition("events", 0)
    hosting.known.partitions.add(("events", 0))
    with pytest.raises(NotLeaderOrFollower):
        hosting.replicas.partition("events", 0)


async def test_new_leader_epoch_starts_at_the_log_end_offset(tmp_path):
    partition = Hosting(tmp_path).lead(epoch=3)
    partition.append(records_batch(b"v"), acks=1, now_ms=NOW_MS)
    assert [tuple(entry) for entry in partition.log.leader_epoch_cache.entries] == [(3, 0)]
    assert partition.leader_state.leader_epoch_start_offset == 0


async def test_stale_leader_epoch_is_rejected(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(epoch=3)
    for epoch in (2, 3):
        with pytest.raises(StaleControllerEpoch):
            hosting.lead(epoch=epoch)
    hosting.lead(epoch=4)


async def test_partition_with_another_topic_id_is_rejected(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(topic_id=topic_id_of(1))
    with pytest.raises(InconsistentTopicId):
        hosting.lead(topic_id=topic_id_of(2), epoch=1)


async def test_topic_id_can_be_assigned_within_an_epoch(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead()
    assert hosting.lead(topic_id=topic_id_of(1)).topic_id == topic_id_of(1)


async def test_topic_id_assignment_keeps_a_newer_isr(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(replicas=(BROKER, OTHER))
    partition.update_isr([BROKER], partition_epoch=1)
    hosting.lead(replicas=(BROKER, OTHER), topic_id=topic_id_of(1))
    assert partition.leader_state.isr == {BROKER}
    assert partition.partition_epoch == 1


async def test_failed_become_leader_resigns_leadership(tmp_path):
    hosting = Hosting(tmp_path)
    events = []
    hosting.replicas.leadership_listeners["events"] = SimpleNamespace(
        on_election=lambda partition: events.append("leads"),
        on_resignation=lambda index: events.append(index),
    )
    partition = hosting.lead(epoch=1)
    partition.hosted_log.needs_recovery = True
    with pytest.raises(TooManyOpenFiles):
        hosting.lead(epoch=2, is_new=False)
    with pytest.raises(NotLeaderOrFollower):
        partition.require_leader()
    assert events == ["leads", 0]
    partition.hosted_log.needs_recovery = False
    hosting.lead(epoch=2, is_new=False)
    assert partition.require_leader().epoch == 2


async def test_partition_without_a_local_replica_is_not_created(tmp_path):
    hosting = Hosting(tmp_path)
    with pytest.raises(UnknownTopicOrPartition):
        hosting.lead(leader=OTHER, replicas=(OTHER,))
    assert hosting.logs.find(EVENTS) is None


async def test_partition_reassigned_while_disconnected_is_dropped(tmp_path):
    """The broker's session had expired, so it received no StopReplica request."""
    hosting, resigned = Hosting(tmp_path), []
    hosting.replicas.leadership_listeners["events"] = SimpleNamespace(
        on_election=print, on_resignation=resigned.append
    )
    partition = hosting.lead(epoch=3, replicas=(BROKER, OTHER))
    hosting.replicas.drop_if_reassigned(EVENTS, None, partition_state(replicas=[OTHER], epoch=3))
    hosting.replicas.drop_if_reassigned(
        EVENTS, None, partition_state(replicas=[OTHER, BROKER], epoch=4)
    )
    assert hosting.replicas.partition(*EVENTS) is partition
    hosting.replicas.drop_if_reassigned(EVENTS, None, partition_state(replicas=[OTHER], epoch=4))
    with pytest.raises(NotLeaderOrFollower):
        hosting.replicas.partition(*EVENTS)
    assert partition.leader_state is None
    assert resigned == [0]
    followed = hosting.lead(leader=OTHER, epoch=5, replicas=(BROKER, OTHER))
    assert followed.log is partition.log


@pytest.mark.parametrize("replicas", [[OTHER], [OTHER, BROKER]])
async def test_partition_of_a_topic_recreated_while_disconnected_is_dropped(tmp_path, replicas):
    """Leader epochs of the new topic start again at 0."""
    hosting, resigned = Hosting(tmp_path), []
    hosting.replicas.leadership_listeners["events"] = SimpleNamespace(
        on_election=print, on_resignation=resigned.append
    )
    partition = hosting.lead(epoch=3, replicas=(BROKER, OTHER), topic_id=topic_id_of(1))
    hosting.replicas.drop_if_reassigned(
        EVENTS, topic_id_of(1), partition_state(replicas=replicas, epoch=0)
    )
    assert hosting.replicas.partition(*EVENTS) is partition
    hosting.replicas.drop_if_reassigned(
        EVENTS, topic_id_of(2), partition_state(replicas=replicas, epoch=0)
    )
    with pytest.raises(NotLeaderOrFollower):
        hosting.replicas.partition(*EVENTS)
    assert partition.leader_state is None
    assert resigned == [0]


async def test_partition_without_topic_id_is_not_dropped_for_another_topic_id(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(epoch=3, replicas=(BROKER, OTHER))
    hosting.replicas.drop_if_reassigned(
        EVENTS, topic_id_of(2), partition_state(replicas=[OTHER], epoch=0)
    )
    assert hosting.replicas.partition(*EVENTS) is partition


def partition_state(*, replicas, epoch):
    return UpdateMetadataPartitionState(
        partition_index=0,
        controller_epoch=1,
        leader=OTHER,
        leader_epoch=epoch,
        isr=[OTHER],
        zk_version=epoch,
        replicas=replicas,
    )


async def test_waiting_append_fails_when_its_partition_is_deleted(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(replicas=(BROKER, OTHER))
    append_info = partition.append(records_batch(b"v"), acks=-1, now_ms=NOW_MS)
    waiting = hosting.background.start(
        partition.wait_until_acknowledged(append_info, acks=-1, timeout_s=3600)
    )
    await asyncio.sleep(0)
    assert await hosting.replicas.delete([EVENTS]) == {}
    assert hosting.lead(epoch=1) is not partition
    with pytest.raises(NotLeaderOrFollower):
        await waiting


async def test_follower_rejects_producers(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(leader=OTHER, replicas=(OTHER, BROKER))
    with pytest.raises(NotLeaderOrFollower):
        hosting.replicas.partition("events", 0).require_leader()


class TestStopReplica:
    async def test_keeps_the_log(self, tmp_path):
        hosting = Hosting(tmp_path)
        hosting.lead()
        hosting.replicas.stop(EVENTS, leader_epoch=0, is_deleted=False)
        with pytest.raises(NotLeaderOrFollower):
            hosting.replicas.partition("events", 0).require_leader()
        assert hosting.logs.find(EVENTS) is not None

    async def test_with_delete_allows_a_new_topic_of_the_same_name(self, tmp_path):
        hosting = Hosting(tmp_path)
        hosting.lead(topic_id=topic_id_of(1)).append(records_batch(b"old"), acks=1, now_ms=NOW_MS)
        hosting.replicas.stop(EVENTS, leader_epoch=-2, is_deleted=True)
        assert await hosting.replicas.delete([EVENTS]) == {}
        assert hosting.lead(topic_id=topic_id_of(2)).log.log_end_offset == 0

    async def test_with_delete_removes_a_log_from_before_a_restart(self, tmp_path):
        hosting = Hosting(tmp_path)
        hosting.logs.get_or_create_log(EVENTS, now_ms=NOW_MS)
        hosting.replicas.stop(EVENTS, leader_epoch=-2, is_deleted=True)
        assert await hosting.replicas.delete([EVENTS]) == {}
        assert hosting.logs.find(EVENTS) is None

    async def test_with_an_older_epoch_is_rejected(self, tmp_path):
        hosting = Hosting(tmp_path)
        hosting.lead(epoch=3)
        with pytest.raises(FencedLeaderEpoch):
            hosting.replicas.stop(EVENTS, leader_epoch=2, is_deleted=False)
        hosting.replicas.stop(EVENTS, leader_epoch=-1, is_deleted=False)


async def test_failed_log_dir_takes_only_its_own_partitions_offline(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.mkdir()
    hosting = Hosting(*paths)
    first, second = hosting.lead(partition=0), hosting.lead(partition=1)
    assert first.hosted_log.directory is not second.hosted_log.directory
    first.hosted_log.directory.mark_offline(OSError(5, "broken"), "testing")
    with pytest.raises(KafkaStorageError):
        hosting.replicas.partition("events", 0)
    with pytest.raises(KafkaStorageError):
        hosting.replicas.become_leader_or_follower(EVENTS, None, led(epoch=7))
    with pytest.raises(KafkaStorageError):
        hosting.replicas.stop(EVENTS, leader_epoch=-2, is_deleted=True)
    assert hosting.replicas.partition("events", 1) is second


async def test_lost_partition_is_not_led_from_an_empty_log(tmp_path, caplog):
    hosting = Hosting(tmp_path)
    hosting.replicas.lost_partitions.add(EVENTS)
    for epoch in (4, 5):
        with pytest.raises(KafkaStorageError, match="is lost"):
            hosting.lead(epoch=epoch, is_new=False)
    assert "odradek leaders elect --type unclean" in caplog.text
    assert hosting.logs.find(EVENTS) is None


async def test_lost_partition_can_lead_after_it_has_followed(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.replicas.lost_partitions.add(EVENTS)
    hosting.lead(leader=OTHER, epoch=4, replicas=(BROKER, OTHER), is_new=False)
    assert hosting.lead(epoch=5, is_new=False).leader_state is not None


@pytest.mark.parametrize(("is_new", "is_recovering"), [(False, True), (True, False)])
async def test_lost_partition_leads_if_the_controller_knows_that_the_log_is_empty(
    tmp_path, is_new, is_recovering
):
    hosting = Hosting(tmp_path)
    hosting.replicas.lost_partitions.add(EVENTS)
    state = led(epoch=4, is_new=is_new)
    state.leader_recovery_state = int(is_recovering)
    assert hosting.replicas.become_leader_or_follower(EVENTS, None, state).leader_state is not None


async def test_lost_partition_is_not_created_without_a_leader(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.replicas.lost_partitions.add(EVENTS)
    with pytest.raises(KafkaStorageError, match="is lost"):
        hosting.lead(leader=-1, epoch=4, replicas=(BROKER, OTHER), is_new=False)
    assert hosting.logs.find(EVENTS) is None
    with pytest.raises(KafkaStorageError, match="is lost"):
        hosting.lead(epoch=5, replicas=(BROKER, OTHER), is_new=False)


async def test_partition_that_may_be_in_a_failed_directory_is_not_reported_lost(tmp_path, caplog):
    hosting = Hosting(tmp_path / "a", tmp_path / "b")
    hosting.logs.directories.all[1].mark_offline(OSError("broken"), "a test")
    hosting.replicas.lost_partitions.add(EVENTS)
    with pytest.raises(KafkaStorageError, match="or in a directory that failed"):
        hosting.lead(epoch=4, is_new=False)
    assert "Cannot lead" not in caplog.text
