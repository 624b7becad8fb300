"""Tests of controller/controller_znode.py with every store."""

from odradek.controller.controller_znode import (
    NO_CONTROLLER,
    ControllerEpochAndVersion,
    ControllerZNode,
)
from odradek.controller.store import paths
from odradek.controller.store.base import MultiFailed, NodeExists
from odradek.controller.store.payloads.controller import ControllerEpoch
from tests.support.stores import Seen


def controller_znode_of(store, broker=1):
    return ControllerZNode(store, broker, now_ms=lambda: 1)


async def test_first_controller_is_elected_with_epoch_one(stores):
    store = await stores.open()
    controller_znode = controller_znode_of(store)
    assert await controller_znode.get_controller_id() == NO_CONTROLLER
    assert (
        await controller_znode.register_controller_and_increment_epoch()
        == ControllerEpochAndVersion(epoch=1, epoch_zk_version=1)
    )
    assert await controller_znode.get_controller_id() == 1
    assert (await store.get(paths.CONTROLLER)).stat.ephemeral_owner == store.session_id


async def test_second_broker_is_elected_only_after_the_controller_is_gone(stores):
    store = await stores.open()
    first, second = controller_znode_of(store), controller_znode_of(await stores.open(), 2)
    elected = await first.register_controller_and_increment_epoch()
    assert await second.register_controller_and_increment_epoch() is None
    seen = Seen()
    assert await second.get_controller_id(seen) == 1
    await first.delete_controller(elected)
    assert await second.register_controller_and_increment_epoch() == ControllerEpochAndVersion(
        epoch=2, epoch_zk_version=2
    )
    assert len(seen.events) == 1


async def test_election_increments_the_stored_epoch(stores):
    store = await stores.open()
    await store.create(paths.CONTROLLER_EPOCH, ControllerEpoch(41).encode())
    assert await controller_znode_of(
        store
    ).register_controller_and_increment_epoch() == ControllerEpochAndVersion(
        epoch=42, epoch_zk_version=1
    )


async def test_replaced_controller_does_not_delete_the_znode_of_the_next(stores):
    store = await stores.open()
    first, second = controller_znode_of(store), controller_znode_of(store, 2)
    elected = await first.register_controller_and_increment_epoch()
    await store.delete(paths.CONTROLLER)
    await second.register_controller_and_increment_epoch()
    await first.delete_controller(elected)
    assert await first.get_controller_id() == 2


async def test_own_znode_of_an_old_epoch_is_deleted(stores):
    store = await stores.open()
    controller_znode = controller_znode_of(store)
    await controller_znode.register_controller_and_increment_epoch()
    await store.set(paths.CONTROLLER_EPOCH, ControllerEpoch(9).encode())
    await controller_znode.delete_stale_controller()
    assert await controller_znode.get_controller_id() == NO_CONTROLLER
    assert (
        await controller_znode.register_controller_and_increment_epoch()
        == ControllerEpochAndVersion(epoch=10, epoch_zk_version=3)
    )


async def test_znode_of_another_broker_is_not_deleted(stores):
    store, other = await stores.open(), await stores.open()
    await controller_znode_of(other, 2).register_controller_and_increment_epoch()
    await controller_znode_of(store).delete_stale_controller()
    assert await controller_znode_of(store).get_controller_id() == 2


async def test_election_whose_response_was_lost_succeeds(stores):
    store = await stores.open()
    multi = store.multi

    async def multi_with_lost_response(operations):
        await multi(operations)
        raise MultiFailed(0, NodeExists(paths.CONTROLLER))

    store.multi = multi_with_lost_response
    assert await controller_znode_of(
        store
    ).register_controller_and_increment_epoch() == ControllerEpochAndVersion(
        epoch=1, epoch_zk_version=1
    )
