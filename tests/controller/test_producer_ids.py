"""Tests of controller/producer_ids.py with every store."""

import pytest

from odradek.controller.producer_ids import LAST_ID, allocate
from odradek.controller.store import paths
from odradek.controller.store.payloads.cluster import ProducerIdsBlock
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError
from tests.support.controller_parts import machinery_of
from tests.support.controller_scene import controller_scene


async def open_scene(stores):
    scene = await controller_scene(await stores.open())
    return scene, machinery_of(scene)


async def test_consecutive_blocks_are_allocated(stores):
    _, services = await open_scene(stores)
    blocks = [await allocate(services, broker, broker_epoch=100 + broker) for broker in (1, 2)]
    assert blocks == [ProducerIdsBlock(1, 0, 999), ProducerIdsBlock(2, 1000, 1999)]


async def test_block_claimed_concurrently_is_not_allocated_twice(stores):
    scene, services = await open_scene(stores)
    latest = scene.reads.get_latest_producer_id_block

    async def read_then_lose_the_race():
        scene.reads.get_latest_producer_id_block = latest
        block = await latest()
        value = ProducerIdsBlock(9, 0, 999).encode()
        await scene.store.set(paths.PRODUCER_ID_BLOCK, value)
        return block

    scene.reads.get_latest_producer_id_block = read_then_lose_the_race
    assert await allocate(services, 1, broker_epoch=101) == ProducerIdsBlock(1, 1000, 1999)


@pytest.mark.parametrize(
    ("broker", "epoch", "error"),
    [
        (99, 1, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (1, 1, ErrorCode.STALE_BROKER_EPOCH),
        (1, -1, ErrorCode.STALE_BROKER_EPOCH),
    ],
)
async def test_unknown_broker_or_stale_broker_epoch_gets_no_block(stores, broker, epoch, error):
    _, services = await open_scene(stores)
    with pytest.raises(KafkaError) as raised:
        await allocate(services, broker, broker_epoch=epoch)
    assert raised.value.error_code is error


async def test_allocation_fails_when_producer_ids_are_exhausted(stores):
    scene, services = await open_scene(stores)
    last = ProducerIdsBlock(1, LAST_ID - 1500, LAST_ID - 501)
    await scene.store.set(paths.PRODUCER_ID_BLOCK, last.encode())
    with pytest.raises(KafkaError, match="left"):
        await allocate(services, 1, broker_epoch=101)
