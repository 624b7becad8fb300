"""One partition: its role, its log, and who waits for it."""

import asyncio
import threading

import pytest

from odradek.broker.replicas.delete_records import HIGH_WATERMARK, RecordDeletion
from odradek.broker.replicas.leader import LeaderRole
from odradek.broker.replicas.partition import ALL_IN_SYNC, Partition
from odradek.broker.replicas.waiter import Stir
from odradek.protocol.errors import (
    FencedLeaderEpoch,
    KafkaStorageError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeader,
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
        up_to = partition.readable_up_to(is_follower=False, committed=committed)
    return partition.read(
        offset, max_bytes=1 << 20, up_to=up_to, committed=committed, at_least_one=True
    )


async def test_what_a_leader_alone_appends_is_replicated_at_once(tmp_path):
    partition = Hosting(tmp_path).lead()
    written = append(partition, b"a", b"b", acks=ALL_IN_SYNC)
    assert partition.is_acknowledged(written, acks=ALL_IN_SYNC)
    assert partition.high_watermark.value == partition.log.high_watermark == 2
    portion = read(partition)
    assert len(bytes_of(portion.records)) == partition.log.size_bytes
    assert (portion.high_watermark, portion.start_offset, portion.aborted) == (2, 0, None)


async def test_consumers_see_nothing_before_it_is_replicated(tmp_path):
    partition = Hosting(tmp_path).lead(replicas=(BROKER, OTHER))
    written = append(partition)
    assert not partition.is_acknowledged(written, acks=ALL_IN_SYNC)
    assert partition.is_acknowledged(written, acks=1)
    assert len(read(partition).records) == 0
    end = partition.readable_up_to(is_follower=True, committed=False)
    assert len(read(partition, up_to=end).records) > 0


async def test_r3_what_was_appended_while_enough_were_in_sync_waits_until_they_are_again(tmp_path):
    """Kafka 3.9, too, tells the producer nothing but that the time has run out (KIP-966)."""
    hosting = Hosting(tmp_path, min_insync_replicas=2)
    partition = hosting.lead(replicas=(BROKER, OTHER, 3))
    written = append(partition, acks=ALL_IN_SYNC)
    partition.in_sync_changed([BROKER], partition_epoch=1)
    with pytest.raises(RequestTimedOut):
        await partition.wait_until_acknowledged(written, acks=ALL_IN_SYNC, timeout_s=0)
    assert (partition.high_watermark.value, len(read(partition).records)) == (0, 0)
    waiting = hosting.background.start(
        partition.wait_until_acknowledged(written, acks=ALL_IN_SYNC, timeout_s=3600)
    )
    partition.follower_fetched(OTHER, offset=1, start_offset=0)
    assert partition.high_watermark.value == 0
    partition.in_sync_changed([BROKER, OTHER], partition_epoch=2)
    await waiting
    assert partition.high_watermark.value == partition.log.high_watermark == 1


async def test_a_producer_is_told_if_more_are_wanted_in_sync_by_the_time_it_looks(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(replicas=(BROKER, OTHER), in_sync=(BROKER,))
    written = append(partition, acks=ALL_IN_SYNC)
    hosting.logs.configure_defaults(TopicSettings(min_insync_replicas=2))
    with pytest.raises(NotEnoughReplicasAfterAppend, match="1 of 2"):
        await partition.wait_until_acknowledged(written, acks=ALL_IN_SYNC, timeout_s=3600)


async def test_what_acks_1_writes_while_too_few_are_in_sync_is_read_by_followers_only(tmp_path):
    hosting = Hosting(tmp_path, min_insync_replicas=2)
    partition = hosting.lead(replicas=(BROKER, OTHER), in_sync=(BROKER,))
    append(partition, acks=1)
    assert partition.readable_up_to(is_follower=False, committed=False) == 0
    assert partition.readable_up_to(is_follower=True, committed=False) == 1
    RecordDeletion(partition, HIGH_WATERMARK, is_alive=lambda _: False, copy=lambda: None)
    assert partition.log.start_offset == 0


async def test_it_is_read_when_fewer_are_wanted_in_sync_and_the_leader_has_looked(tmp_path):
    hosting = Hosting(tmp_path, min_insync_replicas=2)
    partition = hosting.lead(replicas=(BROKER, OTHER), in_sync=(BROKER,))
    append(partition, acks=1)
    reader = Stir()
    partition.waiting.add(reader)
    hosting.logs.configure_defaults(TopicSettings(min_insync_replicas=1))
    await hosting.replicas.look_for_laggards()
    await asyncio.wait_for(reader.next(), timeout=10)
    assert partition.high_watermark.value == partition.log.high_watermark == 1


async def test_or_when_something_else_is_written(tmp_path):
    hosting = Hosting(tmp_path, min_insync_replicas=2)
    partition = hosting.lead(replicas=(BROKER, OTHER), in_sync=(BROKER,))
    append(partition, acks=1)
    hosting.logs.configure_defaults(TopicSettings(min_insync_replicas=1))
    append(partition, acks=1)
    assert partition.high_watermark.value == 2


async def test_acks_all_is_refused_when_too_few_are_in_sync(tmp_path):
    hosting = Hosting(tmp_path, min_insync_replicas=2)
    partition = hosting.lead(replicas=(BROKER, OTHER), in_sync=(BROKER,))
    with pytest.raises(NotEnoughReplicas, match="1 of 2"):
        append(partition, acks=ALL_IN_SYNC)
    assert partition.log.end_offset == 0
    append(partition, acks=1)


async def test_more_than_there_are_replicas_need_not_be_in_sync(tmp_path):
    partition = Hosting(tmp_path, min_insync_replicas=2).lead()
    append(partition, acks=ALL_IN_SYNC)
    assert partition.high_watermark.value == 1
    few = Hosting(tmp_path / "few", min_insync_replicas=3).lead(replicas=(BROKER, OTHER))
    append(few, acks=ALL_IN_SYNC)
    few.follower_fetched(OTHER, offset=1, start_offset=0)
    assert few.high_watermark.value == 1


async def test_acks_all_waits_no_longer_than_it_was_told(tmp_path):
    partition = Hosting(tmp_path).lead(replicas=(BROKER, OTHER))
    written = append(partition, acks=ALL_IN_SYNC)
    with pytest.raises(RequestTimedOut):
        await partition.wait_until_acknowledged(written, acks=ALL_IN_SYNC, timeout_s=0)


def test_a_sync_and_the_followers_together_are_waited_for_no_longer_than_that(tmp_path):
    async def waiting():
        hosting = Hosting(tmp_path, flush_messages=1)
        partition = Partition(hosting.lead().hosted, on_flush_due=lambda _: None)
        role = LeaderRole(
            local_id=BROKER,
            epoch=0,
            start_offset=0,
            replicas=(BROKER, OTHER),
            in_sync=(BROKER, OTHER),
        )
        partition.lead(role, partition_epoch=0)
        written = append(partition, acks=ALL_IN_SYNC)
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        loop.call_later(7, partition.synced.advance, 1)
        with pytest.raises(RequestTimedOut):
            await partition.wait_until_acknowledged(written, acks=ALL_IN_SYNC, timeout_s=10)
        return loop.time() - begun_s

    assert finish_in_virtual_time(waiting()) == pytest.approx(10)


async def test_a_new_leader_elsewhere_fails_those_who_wait(tmp_path):
    partition = Hosting(tmp_path).lead(replicas=(BROKER, OTHER))
    written = append(partition, acks=ALL_IN_SYNC)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(failure_of(partition, written, acks=ALL_IN_SYNC))
        await asyncio.sleep(0)
        partition.follow(OTHER, leader_epoch=1, partition_epoch=1)
    assert isinstance(waiting.result(), NotLeader)
    with pytest.raises(NotLeader):
        append(partition)


async def test_a_new_epoch_of_the_same_leader_disturbs_nobody_who_waits(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(replicas=(BROKER, OTHER))
    written = append(partition, acks=ALL_IN_SYNC)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(failure_of(partition, written, acks=ALL_IN_SYNC))
        await asyncio.sleep(0)
        hosting.lead(replicas=(BROKER, OTHER), epoch=1, is_new=False)
        await asyncio.sleep(0)
        assert not waiting.done()
        partition.follower_fetched(OTHER, offset=1, start_offset=0)
    assert waiting.result() is None


async def follow_and_lose_all(hosting, partition):
    """Another leads, whose log is empty; then this broker does again."""
    hosting.lead(leader=OTHER, replicas=(BROKER, OTHER), epoch=1, is_new=False)
    work = hosting.logs.truncate(partition.hosted, 0, now_ms=NOW_MS)
    partition.cut()
    await hosting.care.carry_out(work)
    hosting.lead(replicas=(BROKER, OTHER), in_sync=[BROKER], epoch=2, is_new=False)


async def test_what_is_not_there_any_more_when_it_is_waited_for_is_not_acknowledged(tmp_path):
    hosting = Hosting(tmp_path)
    partition = hosting.lead(replicas=(BROKER, OTHER))
    written = append(partition, b"mine", acks=ALL_IN_SYNC)
    await follow_and_lose_all(hosting, partition)
    append(partition, b"another's", acks=ALL_IN_SYNC)
    assert partition.high_watermark.value == 1
    assert isinstance(await failure_of(partition, written, acks=ALL_IN_SYNC), NotLeader)


async def test_what_is_written_where_something_was_synced_and_cut_is_not_synced(tmp_path):
    hosting = Hosting(tmp_path, flush_messages=1)
    partition = hosting.lead(replicas=(BROKER, OTHER))
    before = append(partition)
    await partition.wait_until_acknowledged(before, acks=1, timeout_s=30)
    await follow_and_lose_all(hosting, partition)
    written = append(partition)
    assert not partition.is_acknowledged(written, acks=1)
    await partition.wait_until_acknowledged(written, acks=1, timeout_s=30)
    assert partition.log.recovery_point == 1


async def failure_of(partition, written, *, acks):
    try:
        await partition.wait_until_acknowledged(written, acks=acks, timeout_s=30)
    except (NotLeader, KafkaStorageError) as failure:
        return failure


async def test_a_client_that_knows_of_another_leader_epoch_is_told(tmp_path):
    partition = Hosting(tmp_path).lead(epoch=5)
    partition.leading(5)
    partition.leading(-1)
    with pytest.raises(FencedLeaderEpoch):
        partition.leading(4)
    with pytest.raises(UnknownLeaderEpoch):
        partition.leading(6)


async def test_whoever_waits_for_records_is_woken_by_an_append(tmp_path):
    partition = Hosting(tmp_path).lead()
    reader, follower = Stir(), Stir()
    partition.waiting.add(reader)
    partition.waiting_followers.add(follower)
    append(partition)
    assert (reader.is_set(), follower.is_set()) == (True, True)


async def test_followers_are_woken_by_an_append_and_readers_by_the_watermark(tmp_path):
    partition = Hosting(tmp_path).lead(replicas=(BROKER, OTHER))
    partition.follower_fetched(OTHER, offset=0, start_offset=0)
    reader, follower = Stir(), Stir()
    partition.waiting.add(reader)
    partition.waiting_followers.add(follower)
    append(partition)
    assert (reader.is_set(), follower.is_set()) == (False, True)
    follower.clear()
    partition.follower_fetched(OTHER, offset=1, start_offset=0)
    assert (reader.is_set(), follower.is_set()) == (True, False)


class SlowSyncs(files.System):
    """Syncs that have begun, and end when they may."""

    def __init__(self):
        self.begun, self.may_end = threading.Event(), threading.Event()

    def fsync(self, descriptor):
        self.begun.set()
        assert self.may_end.wait(30)


class TestAFlushThatIsDue:
    async def test_is_waited_for_before_anything_is_acknowledged(self, tmp_path):
        partition = Hosting(tmp_path, flush_messages=1).lead()
        written = append(partition)
        assert not partition.is_acknowledged(written, acks=1)
        await partition.wait_until_acknowledged(written, acks=1, timeout_s=30)
        assert partition.log.recovery_point == 1

    async def test_is_shared_by_all_who_wait(self, tmp_path):
        partition = Hosting(tmp_path, flush_messages=1).lead()
        writes = [append(partition) for _ in range(20)]
        await asyncio.gather(
            *(partition.wait_until_acknowledged(each, acks=1, timeout_s=30) for each in writes)
        )
        assert partition.log.recovery_point == 20

    async def test_is_followed_by_another_for_what_was_appended_while_it_ran(
        self, tmp_path, monkeypatch
    ):
        hosting = Hosting(tmp_path, flush_messages=3)
        partition = hosting.lead()
        slow = SlowSyncs()
        monkeypatch.setattr(files, "system", slow)
        first = append(partition, b"a", b"b", b"c")
        await asyncio.get_running_loop().run_in_executor(None, slow.begun.wait, 30)
        second = append(partition, b"d")
        assert not partition.is_acknowledged(second, acks=1)
        async with asyncio.TaskGroup() as tasks:
            for written in (first, second):
                waiting = partition.wait_until_acknowledged(written, acks=1, timeout_s=5)
                tasks.create_task(waiting)
            await asyncio.sleep(0)
            slow.may_end.set()
        assert partition.log.recovery_point == 4

    async def test_is_waited_for_also_if_one_of_the_schedule_is_under_way(
        self, tmp_path, monkeypatch
    ):
        hosting = Hosting(tmp_path, flush_messages=3, flush_ms=0)
        partition = hosting.lead()
        slow = SlowSyncs()
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

    async def test_is_not_tried_again_and_again_once_the_partition_is_deleted(
        self, tmp_path, monkeypatch
    ):
        hosting = Hosting(tmp_path, flush_messages=1)
        partition = hosting.lead()
        slow, flushes = SlowSyncs(), []
        monkeypatch.setattr(files, "system", slow)
        append(partition)
        await asyncio.get_running_loop().run_in_executor(None, slow.begun.wait, 30)
        carry_out = hosting.care.carry_out
        monkeypatch.setattr(
            hosting.care, "carry_out", lambda work: flushes.append(work) or carry_out(work)
        )
        key = partition.topic_partition
        hosting.replicas.stop(key, leader_epoch=-2, is_deleted=True)
        slow.may_end.set()
        await hosting.replicas.delete([key])
        for _ in range(20):  # as long as it takes to try it twenty times
            await hosting.disk.run(int)
        assert not flushes

    async def test_that_fails_acknowledges_nothing(self, tmp_path):
        partition = Hosting(tmp_path, flush_messages=1).lead()
        with FaultyDisk(fail_at=1, counting={"fsync"}):
            written = append(partition)
            failure = await failure_of(partition, written, acks=1)
        assert isinstance(failure, KafkaStorageError)
