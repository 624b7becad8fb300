"""One partition: its role, its log, and the operations that wait for it."""

import asyncio
import threading

import pytest

from odradek.broker.replicas.delayed_delete_records import HIGH_WATERMARK, DelayedDeleteRecords
from odradek.broker.replicas.fetch_watcher import WatcherEvent
from odradek.broker.replicas.leader_state import LeaderState
from odradek.broker.replicas.partition import ACKS_ALL, Partition
from odradek.protocol.errors import (
    FencedLeaderEpoch,
    KafkaStorageError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownLeaderEpoch,
)
from odradek.storage import files
from odradek.storage.settings import TopicSettings
from tests.support.faulty_disk import FaultyDisk
from tests.support.hosted_partitions import BROKER, Hosting
from tests.support.logs import NOW_MS, bytes_of, records_batch
from tests.support.loops import finish_in_virtual_time

OTHER = 2


def append(partition, *values, acks=1):
    return partition.append(records_batch(*values or (b"v",)), acks=acks, now_ms=NOW_MS)


def read(partition, offset=0, *, committed=False, up_to=None):
    if up_to is None:
        up_to = partition.readable_end_offset(is_follower=False, is_read_committed=committed)
    return partition.read(
        offset, max_bytes=1 << 20, up_to=up_to, is_read_committed=committed, at_least_one=True
    )


async def test_append_of_a_single_replica_is_replicated_at_once(tmp_path):
    partition = Hosting(tmp_path).lead()
    append_info = append(partition, b"a", b"b", acks=ACKS_ALL)
    assert partition.is_acknowledged(append_info, acks=ACKS_ALL)
    assert partition.high_watermark.value == partition.log.high_watermark == 2
    fetched = read(partition)
    assert len(bytes_of(fetched.records)) == partition.log.size_bytes
    assert (fetched.high_watermark, fetched.log_start_offset, fetched.aborted_transactions) == (
        2,
        0,
        None,
    )


async def test_consumers_do_not_see_records_above_the_high_watermark(tmp_path):
    partition = Hosting(tmp_path).lead(replicas=(BROKER, OTHER))
    append_info = append(partition)
    assert not partition.is_acknowledged(append_info, acks=ACKS_ALL)
    assert partition.is_acknowledged(append_info, acks=1)
    assert len(read(partition).records) == 0
    end = partition.readable_end_offset(is_follower=True, is_read_committed=False)
    assert len(read(partition, up_to=end).records) > 0


async def test_r3_append_waits_while_the_isr_is_below_min_insync_replicas(tmp_path):
    """Kafka 3.9 also reports only a timeout to the producer (KIP-966)."""
    hosting = Hosting(tmp_path, min_insync_replicas=2)
    partition = hosting.lead(replicas=(BROKER, OTHER, 3))
    append_info = append(partition, acks=ACKS_ALL)
    partition.update_isr([BROKER], partition_epoch=1)
    with pytest.raises(RequestTimedOut):
        await partition.wait_until_acknowledged(append_info, acks=ACKS_ALL, timeout_s=0)
    assert (partition.high_watermark.value, len(read(partition).records)) == (0, 0)
    waiting = hosting.background.start(
        partition.wait_until_acknowledged(append_info, acks=ACKS_ALL, timeout_s=3600)
    )
    partition.update_follower_fetch_state(OTHER, fetch_offset=1, follower_start_offset=0)
    assert partition.high_watermark.value == 0
    partition.update_isr([BROKER, OTHER], partition_epoch=2)
    await waiting
    assert partition.high_watermark.value == partition.log.high_watermark == 1


async def test_producer_gets_an_error_when_min_insync_replicas_rises_after_its_append(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(replicas=(BROKER, OTHER), in_sync=(BROKER,))
    append_info = append(partition, acks=ACKS_ALL)
    hosting.logs.configure_defaults(TopicSettings(min_insync_replicas=2))
    with pytest.raises(
        NotEnoughReplicasAfterAppend, match=r"ISR size 1 is below min\.insync\.replicas=2"
    ):
        await partition.wait_until_acknowledged(append_info, acks=ACKS_ALL, timeout_s=3600)


async def test_acks_1_append_below_min_insync_replicas_is_visible_only_to_followers(tmp_path):
    hosting = Hosting(tmp_path, min_insync_replicas=2)
    partition = hosting.lead(replicas=(BROKER, OTHER), in_sync=(BROKER,))
    append(partition, acks=1)
    assert partition.readable_end_offset(is_follower=False, is_read_committed=False) == 0
    assert partition.readable_end_offset(is_follower=True, is_read_committed=False) == 1
    DelayedDeleteRecords(
        partition, HIGH_WATERMARK, is_alive=lambda _: False, future_log=lambda: None
    )
    assert partition.log.log_start_offset == 0


async def test_high_watermark_advances_at_the_isr_check_after_min_insync_replicas_falls(tmp_path):
    hosting = Hosting(tmp_path, min_insync_replicas=2)
    partition = hosting.lead(replicas=(BROKER, OTHER), in_sync=(BROKER,))
    append(partition, acks=1)
    reader = WatcherEvent()
    partition.fetch_watchers.add(reader)
    hosting.logs.configure_defaults(TopicSettings(min_insync_replicas=1))
    await hosting.replicas.maybe_shrink_isr()
    await asyncio.wait_for(reader.wait_next(), timeout=10)
    assert partition.high_watermark.value == partition.log.high_watermark == 1


async def test_high_watermark_advances_at_the_next_append_after_min_insync_replicas_falls(tmp_path):
    hosting = Hosting(tmp_path, min_insync_replicas=2)
    partition = hosting.lead(replicas=(BROKER, OTHER), in_sync=(BROKER,))
    append(partition, acks=1)
    hosting.logs.configure_defaults(TopicSettings(min_insync_replicas=1))
    append(partition, acks=1)
    assert partition.high_watermark.value == 2


async def test_acks_all_is_rejected_below_min_insync_replicas(tmp_path):
    hosting = Hosting(tmp_path, min_insync_replicas=2)
    partition = hosting.lead(replicas=(BROKER, OTHER), in_sync=(BROKER,))
    with pytest.raises(NotEnoughReplicas, match=r"ISR size 1 is below min\.insync\.replicas=2"):
        append(partition, acks=ACKS_ALL)
    assert partition.log.log_end_offset == 0
    append(partition, acks=1)


async def test_min_insync_replicas_is_limited_to_the_replica_count(tmp_path):
    partition = Hosting(tmp_path, min_insync_replicas=2).lead()
    append(partition, acks=ACKS_ALL)
    assert partition.high_watermark.value == 1
    few = Hosting(tmp_path / "few", min_insync_replicas=3).lead(replicas=(BROKER, OTHER))
    append(few, acks=ACKS_ALL)
    few.update_follower_fetch_state(OTHER, fetch_offset=1, follower_start_offset=0)
    assert few.high_watermark.value == 1


async def test_acks_all_times_out(tmp_path):
    partition = Hosting(tmp_path).lead(replicas=(BROKER, OTHER))
    append_info = append(partition, acks=ACKS_ALL)
    with pytest.raises(RequestTimedOut):
        await partition.wait_until_acknowledged(append_info, acks=ACKS_ALL, timeout_s=0)


def test_flush_and_replication_share_one_timeout(tmp_path):
    async def waiting():
        hosting = Hosting(tmp_path, flush_messages=1)
        partition = Partition(hosting.lead().hosted_log, on_flush_due=lambda _: None)
        leader_state = LeaderState(
            local_broker_id=BROKER,
            epoch=0,
            leader_epoch_start_offset=0,
            replicas=(BROKER, OTHER),
            isr=(BROKER, OTHER),
        )
        partition.make_leader(leader_state, partition_epoch=0)
        append_info = append(partition, acks=ACKS_ALL)
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        loop.call_later(7, partition.flushed_offset.advance, 1)
        with pytest.raises(RequestTimedOut):
            await partition.wait_until_acknowledged(append_info, acks=ACKS_ALL, timeout_s=10)
        return loop.time() - begun_s

    assert finish_in_virtual_time(waiting()) == pytest.approx(10)


async def test_new_leader_elsewhere_fails_waiting_appends(tmp_path):
    partition = Hosting(tmp_path).lead(replicas=(BROKER, OTHER))
    append_info = append(partition, acks=ACKS_ALL)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(acknowledge_error(partition, append_info, acks=ACKS_ALL))
        await asyncio.sleep(0)
        partition.make_follower(OTHER, leader_epoch=1, partition_epoch=1)
    assert isinstance(waiting.result(), NotLeaderOrFollower)
    with pytest.raises(NotLeaderOrFollower):
        append(partition)


async def test_new_epoch_of_the_same_leader_keeps_waiting_appends(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(replicas=(BROKER, OTHER))
    append_info = append(partition, acks=ACKS_ALL)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(acknowledge_error(partition, append_info, acks=ACKS_ALL))
        await asyncio.sleep(0)
        hosting.lead(replicas=(BROKER, OTHER), epoch=1, is_new=False)
        await asyncio.sleep(0)
        assert not waiting.done()
        partition.update_follower_fetch_state(OTHER, fetch_offset=1, follower_start_offset=0)
    assert waiting.result() is None


async def follow_and_truncate_all(hosting, partition):
    """Follow a leader whose log is empty, then lead again."""
    hosting.lead(leader=OTHER, replicas=(BROKER, OTHER), epoch=1, is_new=False)
    work = hosting.logs.truncate(partition.hosted_log, 0, now_ms=NOW_MS)
    partition.on_truncated()
    await hosting.care.execute(work)
    hosting.lead(replicas=(BROKER, OTHER), in_sync=[BROKER], epoch=2, is_new=False)


async def test_truncated_append_is_not_acknowledged(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(replicas=(BROKER, OTHER))
    append_info = append(partition, b"mine", acks=ACKS_ALL)
    await follow_and_truncate_all(hosting, partition)
    append(partition, b"another's", acks=ACKS_ALL)
    assert partition.high_watermark.value == 1
    assert isinstance(
        await acknowledge_error(partition, append_info, acks=ACKS_ALL), NotLeaderOrFollower
    )


async def test_append_at_a_truncated_flushed_offset_needs_a_new_flush(tmp_path):
    hosting = Hosting(tmp_path, flush_messages=1)
    partition = hosting.lead(replicas=(BROKER, OTHER))
    before = append(partition)
    await partition.wait_until_acknowledged(before, acks=1, timeout_s=30)
    await follow_and_truncate_all(hosting, partition)
    append_info = append(partition)
    assert not partition.is_acknowledged(append_info, acks=1)
    await partition.wait_until_acknowledged(append_info, acks=1, timeout_s=30)
    assert partition.log.recovery_point == 1


async def acknowledge_error(partition, append_info, *, acks):
    try:
        await partition.wait_until_acknowledged(append_info, acks=acks, timeout_s=30)
    except (NotLeaderOrFollower, KafkaStorageError) as error:
        return error


async def test_client_with_another_leader_epoch_gets_an_error(tmp_path):
    partition = Hosting(tmp_path).lead(epoch=5)
    partition.require_leader(5)
    partition.require_leader(-1)
    with pytest.raises(FencedLeaderEpoch):
        partition.require_leader(4)
    with pytest.raises(UnknownLeaderEpoch):
        partition.require_leader(6)


async def test_append_notifies_fetch_watchers(tmp_path):
    partition = Hosting(tmp_path).lead()
    reader, follower = WatcherEvent(), WatcherEvent()
    partition.fetch_watchers.add(reader)
    partition.follower_fetch_watchers.add(follower)
    append(partition)
    assert (reader.is_set(), follower.is_set()) == (True, True)


async def test_append_notifies_followers_and_high_watermark_notifies_consumers(tmp_path):
    partition = Hosting(tmp_path).lead(replicas=(BROKER, OTHER))
    partition.update_follower_fetch_state(OTHER, fetch_offset=0, follower_start_offset=0)
    reader, follower = WatcherEvent(), WatcherEvent()
    partition.fetch_watchers.add(reader)
    partition.follower_fetch_watchers.add(follower)
    append(partition)
    assert (reader.is_set(), follower.is_set()) == (False, True)
    follower.clear()
    partition.update_follower_fetch_state(OTHER, fetch_offset=1, follower_start_offset=0)
    assert (reader.is_set(), follower.is_set()) == (True, False)


class SlowFlushes(files.SystemCalls):
    """Flushes that announce their start and end on request."""

    def __init__(self):
        self.begun, self.may_end = threading.Event(), threading.Event()

    def fsync(self, descriptor):
        self.begun.set()
        assert self.may_end.wait(30)


class TestDueFlush:
    async def test_delays_the_acknowledgement(self, tmp_path):
        partition = Hosting(tmp_path, flush_messages=1).lead()
        append_info = append(partition)
        assert not partition.is_acknowledged(append_info, acks=1)
        await partition.wait_until_acknowledged(append_info, acks=1, timeout_s=30)
        assert partition.log.recovery_point == 1

    async def test_is_shared_by_all_waiting_appends(self, tmp_path):
        partition = Hosting(tmp_path, flush_messages=1).lead()
        writes = [append(partition) for _ in range(20)]
        await asyncio.gather(
            *(partition.wait_until_acknowledged(each, acks=1, timeout_s=30) for each in writes)
        )
        assert partition.log.recovery_point == 20

    async def test_is_followed_by_another_for_appends_during_it(self, tmp_path, monkeypatch):
        hosting = Hosting(tmp_path, flush_messages=3)
        partition = hosting.lead()
        slow = SlowFlushes()
        monkeypatch.setattr(files, "system", slow)
        first = append(partition, b"a", b"b", b"c")
        await asyncio.get_running_loop().run_in_executor(None, slow.begun.wait, 30)
        second = append(partition, b"d")
        assert not partition.is_acknowledged(second, acks=1)
        async with asyncio.TaskGroup() as tasks:
            for append_info in (first, second):
                waiting = partition.wait_until_acknowledged(append_info, acks=1, timeout_s=5)
                tasks.create_task(waiting)
            await asyncio.sleep(0)
            slow.may_end.set()
        assert partition.log.recovery_point == 4

    async def test_is_waited_for_while_a_scheduled_flush_runs(self, tmp_path, monkeypatch):
        hosting = Hosting(tmp_path, flush_messages=3, flush_ms=0)
        partition = hosting.lead()
        slow = SlowFlushes()
        monkeypatch.setattr(files, "system", slow)
        assert partition.is_acknowledged(append(partition, b"a"), acks=1)
        hosting.background.start(hosting.care.flush())
        await asyncio.get_running_loop().run_in_executor(None, slow.begun.wait, 30)
        second = append(partition, b"b", b"c")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(partition.wait_until_acknowledged(second, acks=1, timeout_s=5))
            await asyncio.sleep(0)
            slow.may_end.set()
        assert partition.log.recovery_point == 3

    async def test_is_not_retried_once_the_partition_is_deleted(self, tmp_path, monkeypatch):
        hosting = Hosting(tmp_path, flush_messages=1)
        partition = hosting.lead()
        slow, flushes = SlowFlushes(), []
        monkeypatch.setattr(files, "system", slow)
        append(partition)
        await asyncio.get_running_loop().run_in_executor(None, slow.begun.wait, 30)
        execute = hosting.care.execute
        monkeypatch.setattr(
            hosting.care, "execute", lambda work: flushes.append(work) or execute(work)
        )
        key = partition.topic_partition
        hosting.replicas.stop(key, leader_epoch=-2, is_deleted=True)
        slow.may_end.set()
        await hosting.replicas.delete([key])
        for _ in range(20):  # long enough to retry twenty times
            await hosting.disk.run(int)
        assert not flushes

    async def test_error_prevents_the_acknowledgement(self, tmp_path):
        partition = Hosting(tmp_path, flush_messages=1).lead()
        with FaultyDisk(fail_at=1, counting={"fsync"}):
            append_info = append(partition)
            error = await acknowledge_error(partition, append_info, acks=1)
        assert isinstance(error, KafkaStorageError)
