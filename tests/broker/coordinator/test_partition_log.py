"""One partition of an internal topic, as its coordinator appends to and reads it."""

import asyncio

import pytest

from odradek.broker.coordinator.partition_log import CoordinatorPartitionLog
from odradek.broker.replicas.leader_state import LeaderState
from odradek.protocol.errors import CorruptMessage, NotEnoughReplicas, RequestTimedOut
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record_set import batches_of_any_magic
from tests.support.group_coordinators import Coordinating, damage
from tests.support.hosted_partitions import BROKER
from tests.support.logs import NOW_MS, bytes_of, records_batch

OTHER = 2


def open_log(path, *, partition=None, **settings):
    scene = Coordinating(path, partitions=0, **settings)
    return CoordinatorPartitionLog(partition or scene.lead(), scene.means), scene


async def test_appended_records_are_replayed(tmp_path):
    log, _ = open_log(tmp_path)
    append_info = log.append([(b"a", b"1"), (b"b", b"1"), (b"a", None)])
    assert (append_info.first_offset, append_info.last_offset) == (0, 2)
    assert log.is_replicated(append_info)
    assert log.is_fully_replicated
    assert (await log.replay()).records() == [(1, b"b", b"1")]


async def test_replay_reads_in_buffers_of_any_size(tmp_path):
    log, _ = open_log(tmp_path, load_buffer_bytes=100)
    for number in range(500):
        log.append([(str(number % 50).encode(), str(number).encode())])
    records = (await log.replay()).records()
    assert [value for _, _, value in records] == [
        str(number).encode() for number in range(450, 500)
    ]


async def test_replay_yields_to_the_event_loop(tmp_path):
    log, scene = open_log(tmp_path)
    for number in range(3000):
        log.append([(str(number).encode(), b"v" * 100)])
    slices = 0
    reading = scene.hosting.background.start(log.replay())
    while not reading.done():
        await asyncio.sleep(0)
        slices += 1
    assert len(reading.result().records()) == 3000
    assert slices > 3


async def test_replay_of_an_empty_log_has_no_records(tmp_path):
    log, _ = open_log(tmp_path)
    assert (await log.replay()).records() == []


async def test_replay_fails_at_a_corrupt_batch(tmp_path):
    log, _ = open_log(tmp_path)
    log.append([(b"a", b"1")])
    log.append([(b"b", b"1")])
    damage(log.partition)
    with pytest.raises(CorruptMessage):
        await log.replay()


async def test_records_can_be_compressed(tmp_path):
    log, _ = open_log(tmp_path, codec_number=1)
    log.append([(b"a", b"1")])
    region = log.partition.log.read(0, max_bytes=1000, max_offset=1)
    (batch,) = batches_of_any_magic(bytes_of(region))
    assert batch.codec is Codec.GZIP
    assert (await log.replay()).records() == [(0, b"a", b"1")]


class TestReplication:
    def open_leader(self, path, **settings):
        scene = Coordinating(path, partitions=0, **settings)
        partition = scene.lead(replicas=(BROKER, OTHER))
        return CoordinatorPartitionLog(partition, scene.means), partition, scene

    async def test_callback_runs_when_all_replicas_have_the_records(self, tmp_path):
        log, partition, scene = self.open_leader(tmp_path)
        results = []
        append_info = log.append([(b"a", b"1")])
        log.when_replicated(append_info, results.append)
        waiting = scene.hosting.background.start(log.wait_until_fully_replicated())
        await asyncio.sleep(0)
        assert (results, log.is_fully_replicated, log.is_replicated(append_info)) == (
            [],
            False,
            False,
        )
        partition.update_follower_fetch_state(OTHER, fetch_offset=1, follower_start_offset=0)
        await waiting
        assert (results, log.is_fully_replicated) == ([None], True)

    async def test_callback_gets_a_timeout(self, tmp_path):
        log, _, _ = self.open_leader(tmp_path, commit_timeout_ms=1)
        result = asyncio.get_running_loop().create_future()
        log.when_replicated(log.append([(b"a", b"1")]), result.set_result)
        assert isinstance(await result, RequestTimedOut)

    async def test_append_below_min_insync_replicas_is_rejected(self, tmp_path):
        scene = Coordinating(tmp_path, partitions=0)
        partition = scene.lead(replicas=(BROKER, OTHER), in_sync=(BROKER,))
        partition.log.configure(replace_settings(partition.log.settings, min_insync_replicas=2))
        with pytest.raises(NotEnoughReplicas):
            CoordinatorPartitionLog(partition, scene.means).append([(b"a", b"1")])
        assert partition.log.log_end_offset == 0


def replace_settings(settings, **changes):
    values = {name: getattr(settings, name) for name in settings.__class__.__annotations__}
    return settings.__class__(**{**values, **changes})


async def test_records_in_all_isr_replicas_count_as_replicated_below_min_insync_replicas(tmp_path):
    scene, replicas = Coordinating(tmp_path, partitions=0), (BROKER, OTHER, 3)
    partition = scene.lead(leader=OTHER, epoch=1, replicas=replicas)
    partition.log.configure(replace_settings(partition.log.settings, min_insync_replicas=2))
    partition.append_as_follower(
        memoryview(records_batch(b"v")),
        leader_epoch=1,
        leader_high_watermark=0,
        leader_log_start_offset=0,
        now_ms=NOW_MS,
    )
    partition = scene.lead(epoch=2, replicas=replicas, in_sync=(BROKER,), is_new=False)
    log = CoordinatorPartitionLog(partition, scene.means)
    assert partition.log.high_watermark == 0
    assert log.is_fully_replicated
    await log.wait_for_isr()
    partition.make_leader(
        LeaderState(
            local_broker_id=BROKER,
            epoch=3,
            leader_epoch_start_offset=1,
            replicas=replicas,
            isr=(BROKER, 3),
        ),
        partition_epoch=3,
    )
    assert not log.is_fully_replicated
