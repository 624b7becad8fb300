"""The partitions of a broker, as the controller and the disk have them."""

import asyncio
from types import SimpleNamespace

import pytest

from odradek.protocol.api.update_metadata import UpdateMetadataPartitionState
from odradek.protocol.errors import (
    FencedLeaderEpoch,
    InconsistentTopicId,
    KafkaStorageError,
    NotLeader,
    StaleControllerEpoch,
    UnknownTopicOrPartition,
)
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage.open_segments import OutOfDescriptors
from tests.support.hosted_partitions import BROKER, Hosting, led
from tests.support.logs import NOW_MS, records_batch

EVENTS = TopicPartition("events", 0)
OTHER = 2


def an_id(number):
    return Uuid(bytes([number] * 16))


async def test_a_partition_nobody_told_us_of_is_unknown_or_another_brokers(tmp_path):
    hosting = Hosting(tmp_path)
    with pytest.raises(UnknownTopicOrPartition):
        hosting.replicas.partition("events", 0)
    hosting.known.partitions.add(("events", 0))
    with pytest.raises(NotLeader):
        hosting.replicas.partition("events", 0)


async def test_leading_begins_an_epoch_at_the_end_of_the_log(tmp_path):
    partition = Hosting(tmp_path).lead(epoch=3)
    partition.append(records_batch(b"v"), acks=1, now_ms=NOW_MS)
    assert [tuple(entry) for entry in partition.log.epochs.entries] == [(3, 0)]
    assert partition.leader.start_offset == 0


async def test_what_has_been_overtaken_is_refused(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(epoch=3)
    for epoch in (2, 3):
        with pytest.raises(StaleControllerEpoch):
            hosting.lead(epoch=epoch)
    hosting.lead(epoch=4)


async def test_a_partition_of_another_topic_of_that_name_is_refused(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(topic_id=an_id(1))
    with pytest.raises(InconsistentTopicId):
        hosting.lead(topic_id=an_id(2), epoch=1)


async def test_a_topic_may_get_its_id_within_an_epoch(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead()
    assert hosting.lead(topic_id=an_id(1)).topic_id == an_id(1)


async def test_what_has_been_agreed_on_meanwhile_outlives_a_late_id(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(replicas=(BROKER, OTHER))
    partition.in_sync_changed([BROKER], partition_epoch=1)
    hosting.lead(replicas=(BROKER, OTHER), topic_id=an_id(1))
    assert partition.leader.in_sync == {BROKER}
    assert partition.partition_epoch == 1


async def test_who_cannot_begin_to_lead_leads_no_more(tmp_path):
    hosting = Hosting(tmp_path)
    told = []
    hosting.replicas.roles["events"] = SimpleNamespace(
        leads=lambda partition: told.append("leads"), leads_no_more=lambda index: told.append(index)
    )
    partition = hosting.lead(epoch=1)
    partition.hosted.is_in_doubt = True
    with pytest.raises(OutOfDescriptors):
        hosting.lead(epoch=2, is_new=False)
    with pytest.raises(NotLeader):
        partition.leading()
    assert told == ["leads", 0]
    partition.hosted.is_in_doubt = False
    hosting.lead(epoch=2, is_new=False)
    assert partition.leading().epoch == 2


async def test_a_partition_that_has_no_replica_here_is_not_made(tmp_path):
    hosting = Hosting(tmp_path)
    with pytest.raises(UnknownTopicOrPartition):
        hosting.lead(leader=OTHER, replicas=(OTHER,))
    assert hosting.logs.find(EVENTS) is None


async def test_what_was_given_to_others_meanwhile_is_left_to_them(tmp_path):
    """The broker's session was over, and nobody could tell it to stop."""
    hosting, left = Hosting(tmp_path), []
    hosting.replicas.roles["events"] = SimpleNamespace(leads=print, leads_no_more=left.append)
    partition = hosting.lead(epoch=3, replicas=(BROKER, OTHER))
    hosting.replicas.told_of(EVENTS, None, seen(replicas=[OTHER], epoch=3))
    hosting.replicas.told_of(EVENTS, None, seen(replicas=[OTHER, BROKER], epoch=4))
    assert hosting.replicas.partition(*EVENTS) is partition
    hosting.replicas.told_of(EVENTS, None, seen(replicas=[OTHER], epoch=4))
    with pytest.raises(NotLeader):
        hosting.replicas.partition(*EVENTS)
    assert partition.leader is None
    assert left == [0]
    again = hosting.lead(leader=OTHER, epoch=5, replicas=(BROKER, OTHER))
    assert again.log is partition.log


@pytest.mark.parametrize("replicas", [[OTHER], [OTHER, BROKER]])
async def test_so_is_what_is_of_a_topic_that_was_deleted_and_made_again_meanwhile(
    tmp_path, replicas
):
    """Whose epochs begin anew."""
    hosting, left = Hosting(tmp_path), []
    hosting.replicas.roles["events"] = SimpleNamespace(leads=print, leads_no_more=left.append)
    partition = hosting.lead(epoch=3, replicas=(BROKER, OTHER), topic_id=an_id(1))
    hosting.replicas.told_of(EVENTS, an_id(1), seen(replicas=replicas, epoch=0))
    assert hosting.replicas.partition(*EVENTS) is partition
    hosting.replicas.told_of(EVENTS, an_id(2), seen(replicas=replicas, epoch=0))
    with pytest.raises(NotLeader):
        hosting.replicas.partition(*EVENTS)
    assert partition.leader is None
    assert left == [0]


async def test_a_partition_without_an_id_may_be_of_any_topic_of_its_name(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(epoch=3, replicas=(BROKER, OTHER))
    hosting.replicas.told_of(EVENTS, an_id(2), seen(replicas=[OTHER], epoch=0))
    assert hosting.replicas.partition(*EVENTS) is partition


def seen(*, replicas, epoch):
    return UpdateMetadataPartitionState(
        partition_index=0,
        controller_epoch=1,
        leader=OTHER,
        leader_epoch=epoch,
        isr=[OTHER],
        zk_version=epoch,
        replicas=replicas,
    )


async def test_whoever_waits_for_a_log_that_is_replaced_is_told_at_once(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(replicas=(BROKER, OTHER))
    written = partition.append(records_batch(b"v"), acks=-1, now_ms=NOW_MS)
    waiting = hosting.background.start(
        partition.wait_until_acknowledged(written, acks=-1, timeout_s=3600)
    )
    await asyncio.sleep(0)
    assert await hosting.replicas.delete([EVENTS]) == {}
    assert hosting.lead(epoch=1) is not partition
    with pytest.raises(NotLeader):
        await waiting


async def test_a_follower_refuses_producers(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.lead(leader=OTHER, replicas=(OTHER, BROKER))
    with pytest.raises(NotLeader):
        hosting.replicas.partition("events", 0).leading()


class TestStopping:
    async def test_keeps_the_log(self, tmp_path):
        hosting = Hosting(tmp_path)
        hosting.lead()
        hosting.replicas.stop(EVENTS, leader_epoch=0, is_deleted=False)
        with pytest.raises(NotLeader):
            hosting.replicas.partition("events", 0).leading()
        assert hosting.logs.find(EVENTS) is not None

    async def test_and_deleting_makes_room_for_another_topic_of_that_name(self, tmp_path):
        hosting = Hosting(tmp_path)
        hosting.lead(topic_id=an_id(1)).append(records_batch(b"old"), acks=1, now_ms=NOW_MS)
        hosting.replicas.stop(EVENTS, leader_epoch=-2, is_deleted=True)
        assert await hosting.replicas.delete([EVENTS]) == {}
        assert hosting.lead(topic_id=an_id(2)).log.end_offset == 0

    async def test_what_is_not_here_deletes_what_a_former_life_left(self, tmp_path):
        hosting = Hosting(tmp_path)
        hosting.logs.create(EVENTS, now_ms=NOW_MS)
        hosting.replicas.stop(EVENTS, leader_epoch=-2, is_deleted=True)
        assert await hosting.replicas.delete([EVENTS]) == {}
        assert hosting.logs.find(EVENTS) is None

    async def test_by_an_earlier_epoch_is_refused(self, tmp_path):
        hosting = Hosting(tmp_path)
        hosting.lead(epoch=3)
        with pytest.raises(FencedLeaderEpoch):
            hosting.replicas.stop(EVENTS, leader_epoch=2, is_deleted=False)
        hosting.replicas.stop(EVENTS, leader_epoch=-1, is_deleted=False)


async def test_a_directory_that_fails_takes_only_its_own_partitions_offline(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.mkdir()
    hosting = Hosting(*paths)
    first, second = hosting.lead(partition=0), hosting.lead(partition=1)
    assert first.hosted.directory is not second.hosted.directory
    first.hosted.directory.fail(OSError(5, "broken"), "testing")
    with pytest.raises(KafkaStorageError):
        hosting.replicas.partition("events", 0)
    with pytest.raises(KafkaStorageError):
        hosting.replicas.become(EVENTS, None, led(epoch=7))
    with pytest.raises(KafkaStorageError):
        hosting.replicas.stop(EVENTS, leader_epoch=-2, is_deleted=True)
    assert hosting.replicas.partition("events", 1) is second


async def test_what_is_lost_is_not_led_from_an_empty_log(tmp_path, caplog):
    hosting = Hosting(tmp_path)
    hosting.replicas.lost.add(EVENTS)
    for epoch in (4, 5):
        with pytest.raises(KafkaStorageError, match="is lost"):
            hosting.lead(epoch=epoch, is_new=False)
    assert "odradek leaders elect --type unclean" in caplog.text
    assert hosting.logs.find(EVENTS) is None


async def test_what_is_lost_is_followed_and_led_from_then_on(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.replicas.lost.add(EVENTS)
    hosting.lead(leader=OTHER, epoch=4, replicas=(BROKER, OTHER), is_new=False)
    assert hosting.lead(epoch=5, is_new=False).leader is not None


@pytest.mark.parametrize(("is_new", "is_recovering"), [(False, True), (True, False)])
async def test_what_is_lost_is_led_if_the_controller_knows(tmp_path, is_new, is_recovering):
    hosting = Hosting(tmp_path)
    hosting.replicas.lost.add(EVENTS)
    state = led(epoch=4, is_new=is_new)
    state.leader_recovery_state = int(is_recovering)
    assert hosting.replicas.become(EVENTS, None, state).leader is not None


async def test_what_is_lost_is_not_made_while_nobody_leads_it(tmp_path):
    hosting = Hosting(tmp_path)
    hosting.replicas.lost.add(EVENTS)
    with pytest.raises(KafkaStorageError, match="is lost"):
        hosting.lead(leader=-1, epoch=4, replicas=(BROKER, OTHER), is_new=False)
    assert hosting.logs.find(EVENTS) is None
    with pytest.raises(KafkaStorageError, match="is lost"):
        hosting.lead(epoch=5, replicas=(BROKER, OTHER), is_new=False)


async def test_what_may_lie_in_a_directory_that_failed_is_not_said_to_be_lost(tmp_path, caplog):
    hosting = Hosting(tmp_path / "a", tmp_path / "b")
    hosting.logs.directories.all[1].fail(OSError("broken"), "a test")
    hosting.replicas.lost.add(EVENTS)
    with pytest.raises(KafkaStorageError, match="or in a directory that failed"):
        hosting.lead(epoch=4, is_new=False)
    assert "is not led" not in caplog.text
