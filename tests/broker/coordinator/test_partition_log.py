"""One partition of an internal topic, as its coordinator writes and reads it."""

import asyncio

import pytest

from odradek.broker.coordinator.partition_log import PartitionLog
from odradek.broker.replicas.leader import LeaderRole
from odradek.protocol.errors import CorruptMessage, NotEnoughReplicas, RequestTimedOut
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record_set import batches_of_any_magic
from tests.support.group_coordinators import Coordinating, damage
from tests.support.hosted_partitions import BROKER
from tests.support.logs import NOW_MS, bytes_of, records_batch

OTHER = 2


def opened(path, *, partition=None, **settings):
    scene = Coordinating(path, partitions=0, **settings)
    return PartitionLog(partition or scene.lead(), scene.means), scene


async def test_what_is_appended_is_read_again(tmp_path):
    log, _ = opened(tmp_path)
    written = log.append([(b"a", b"1"), (b"b", b"1"), (b"a", None)])
    assert (written.first_offset, written.last_offset) == (0, 2)
    assert log.is_replicated(written)
    assert log.is_settled
    assert (await log.replayed()).records() == [(1, b"b", b"1")]


async def test_it_is_read_in_pieces_of_any_size(tmp_path):
    log, _ = opened(tmp_path, load_buffer_bytes=100)
    for number in range(500):
        log.append([(str(number % 50).encode(), str(number).encode())])
    records = (await log.replayed()).records()
    assert [value for _, _, value in records] == [
        str(number).encode() for number in range(450, 500)
    ]


async def test_others_have_their_turns_meanwhile(tmp_path):
    log, scene = opened(tmp_path)
    for number in range(3000):
        log.append([(str(number).encode(), b"v" * 100)])
    turns = 0
    reading = scene.hosting.background.start(log.replayed())
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert len(reading.result().records()) == 3000
    assert turns > 3


async def test_an_empty_log_amounts_to_nothing(tmp_path):
    log, _ = opened(tmp_path)
    assert (await log.replayed()).records() == []


async def test_a_damaged_batch_is_not_passed_over(tmp_path):
    log, _ = opened(tmp_path)
    log.append([(b"a", b"1")])
    log.append([(b"b", b"1")])
    damage(log.partition)
    with pytest.raises(CorruptMessage):
        await log.replayed()


async def test_records_may_be_compressed(tmp_path):
    log, _ = opened(tmp_path, codec_number=1)
    log.append([(b"a", b"1")])
    region = log.partition.log.read(0, max_bytes=1000, up_to=1)
    (batch,) = batches_of_any_magic(bytes_of(region))
    assert batch.codec is Codec.GZIP
    assert (await log.replayed()).records() == [(0, b"a", b"1")]


class TestReplicas:
    def led(self, path, **settings):
        scene = Coordinating(path, partitions=0, **settings)
        partition = scene.lead(replicas=(BROKER, OTHER))
        return PartitionLog(partition, scene.means), partition, scene

    async def test_whoever_waits_is_told_when_all_have_it(self, tmp_path):
        log, partition, scene = self.led(tmp_path)
        told = []
        written = log.append([(b"a", b"1")])
        log.when_replicated(written, told.append)
        waiting = scene.hosting.background.start(log.wait_until_settled())
        await asyncio.sleep(0)
        assert (told, log.is_settled, log.is_replicated(written)) == ([], False, False)
        partition.follower_fetched(OTHER, offset=1, start_offset=0)
        await waiting
        assert (told, log.is_settled) == ([None], True)

    async def test_or_when_it_has_taken_too_long(self, tmp_path):
        log, _, _ = self.led(tmp_path, commit_timeout_ms=1)
        told = asyncio.get_running_loop().create_future()
        log.when_replicated(log.append([(b"a", b"1")]), told.set_result)
        assert isinstance(await told, RequestTimedOut)

    async def test_too_few_in_sync_take_nothing(self, tmp_path):
        scene = Coordinating(tmp_path, partitions=0)
        partition = scene.lead(replicas=(BROKER, OTHER), in_sync=(BROKER,))
        partition.log.configure(replaced(partition.log.settings, min_insync_replicas=2))
        with pytest.raises(NotEnoughReplicas):
            PartitionLog(partition, scene.means).append([(b"a", b"1")])
        assert partition.log.end_offset == 0


def replaced(settings, **changes):
    values = {name: getattr(settings, name) for name in settings.__class__.__annotations__}
    return settings.__class__(**{**values, **changes})


async def test_what_all_in_sync_have_is_settled_though_they_are_too_few(tmp_path):
    scene, trio = Coordinating(tmp_path, partitions=0), (BROKER, OTHER, 3)
    partition = scene.lead(leader=OTHER, epoch=1, replicas=trio)
    partition.log.configure(replaced(partition.log.settings, min_insync_replicas=2))
    partition.append_as_follower(
        memoryview(records_batch(b"v")),
        leader_epoch=1,
        high_watermark=0,
        start_offset=0,
        now_ms=NOW_MS,
    )
    partition = scene.lead(epoch=2, replicas=trio, in_sync=(BROKER,), is_new=False)
    log = PartitionLog(partition, scene.means)
    assert partition.log.high_watermark == 0
    assert log.is_settled
    await log.wait_for_all_in_sync()
    partition.lead(
        LeaderRole(local_id=BROKER, epoch=3, start_offset=1, replicas=trio, in_sync=(BROKER, 3)),
        partition_epoch=3,
    )
    assert not log.is_settled
