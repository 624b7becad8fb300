"""Tests of controller/producer_ids.py, on every store."""

import pytest

from odradek.controller.producer_ids import LAST_ID, allocate
from odradek.controller.store import paths
from odradek.controller.store.payloads.cluster import ProducerIdBlock
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError
from tests.support.controller_parts import machinery_of
from tests.support.controller_scene import controller_scene


async def begun(stores):
    scene = await controller_scene(await stores.open())
    return scene, machinery_of(scene)


async def test_blocks_follow_each_other(stores):
    _, machinery = await begun(stores)
    blocks = [await allocate(machinery, each, broker_epoch=100 + each) for each in (1, 2)]
    assert blocks == [ProducerIdBlock(1, 0, 999), ProducerIdBlock(2, 1000, 1999)]


async def test_a_block_that_another_claimed_meanwhile_is_not_given_twice(stores):
    scene, machinery = await begun(stores)
    latest = scene.reads.latest_producer_ids

    async def outrun():
        scene.reads.latest_producer_ids = latest
        found = await latest()
        value = ProducerIdBlock(9, 0, 999).encode()
        await scene.store.set(paths.PRODUCER_ID_BLOCK, value)
        return found

    scene.reads.latest_producer_ids = outrun
    assert await allocate(machinery, 1, broker_epoch=101) == ProducerIdBlock(1, 1000, 1999)


@pytest.mark.parametrize(
    ("broker", "epoch", "error"),
    [
        (99, 1, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (1, 1, ErrorCode.STALE_BROKER_EPOCH),
        (1, -1, ErrorCode.STALE_BROKER_EPOCH),
    ],
)
async def test_only_a_registered_broker_in_its_epoch_gets_any(stores, broker, epoch, error):
    _, machinery = await begun(stores)
    with pytest.raises(KafkaError) as refusal:
        await allocate(machinery, broker, broker_epoch=epoch)
    assert refusal.value.error is error


async def test_there_is_an_end_to_them(stores):
    scene, machinery = await begun(stores)
    last = ProducerIdBlock(1, LAST_ID - 1500, LAST_ID - 501)
    await scene.store.set(paths.PRODUCER_ID_BLOCK, last.encode())
    with pytest.raises(KafkaError, match="left"):
        await allocate(machinery, 1, broker_epoch=101)
