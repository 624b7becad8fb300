"""One broker's way into the controller's office, and out of it, on every store."""

import asyncio
import logging

import pytest

from odradek.controller.controller import Controller
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.registration import BrokerIdTaken, create_roots
from odradek.controller.store import paths
from odradek.controller.store.base import SessionExpired
from odradek.controller.store.payloads.controller import ControllerEpoch
from odradek.controller.tenure import Tenure
from odradek.protocol.errors import NotController
from tests.support.controlled_cluster import ControlledCluster
from tests.support.stores import MemoryStores

PATIENCE_S = 5


async def test_after_its_session_a_broker_registers_again_and_may_be_controller_again(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start(1)
        await cluster.create_topic("t", [1])
        await cluster.until_led({"t-0": 1})
        old = cluster.controllers[1].broker_epoch
        await cluster.expire(1)
        await cluster.until(lambda: cluster.brokers[1].controller_epoch == 2)
        assert cluster.controllers[1].broker_epoch > old
        assert cluster.controller_id == 1
        await cluster.until_led({"t-0": 1})


async def test_a_session_that_ends_before_the_broker_is_registered_is_followed_by_another():
    stores = MemoryStores()
    async with ControlledCluster(stores) as cluster:
        store = await stores.open()
        await create_roots(store)
        store.expire()
        controller = Controller(store, cluster.identity(1), ControllerSettings(), cluster.world())
        cluster.controllers[1], cluster.sessions[1] = controller, store
        epoch = await controller.start()
        await cluster.until(lambda: controller.controller_id == 1)
        assert controller.broker_epoch == epoch


async def test_whoever_asks_controllers_is_told_of_each_new_one():
    async with ControlledCluster(MemoryStores()) as cluster:
        await cluster.start_three()
        cluster.told_of_controllers.clear()
        await cluster.kill(1)
        await cluster.until(lambda: cluster.controller_id in (2, 3))
        # That there is none, and then who it is.
        await cluster.until(lambda: cluster.told_of_controllers[2] >= 1)
        await cluster.until(lambda: cluster.told_of_controllers[3] >= 1)


async def test_a_controller_whose_session_is_over_leaves_office_before_it_is_back(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        await cluster.create_topic("t", [1, 2, 3])
        await cluster.until_led({"t-0": 1})
        old = cluster.controllers[1].broker_epoch
        await cluster.expire(1)
        await cluster.until(lambda: cluster.controllers[1].broker_epoch > old)
        await cluster.until(lambda: cluster.controller_id in (2, 3))
        await cluster.until(lambda: cluster.controllers[1].controller_id == cluster.controller_id)
        await cluster.kill(1)
        await cluster.until_led({"t-0": 2})


async def test_who_waits_for_an_answer_when_the_session_ends_is_referred_to_another():
    stores = MemoryStores()
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        cluster.sessions[1].writes_left = 0
        epoch = cluster.controllers[1].broker_epoch
        with pytest.raises(NotController):
            await cluster.controllers[1].allocate_producer_ids(1, broker_epoch=epoch)
        await cluster.until(lambda: cluster.controller_id in (2, 3))


async def test_who_waits_in_the_queue_when_the_session_ends_is_refused_before_the_next_begins(
    monkeypatch,
):
    async with ControlledCluster(MemoryStores()) as cluster:
        await cluster.start(1)
        await cluster.until(lambda: cluster.controller_id == 1)
        controller, store = cluster.controllers[1], cluster.sessions[1]
        is_held, may_go_on = asyncio.Event(), asyncio.Event()

        async def held(*_, **__):
            is_held.set()
            await may_go_on.wait()
            raise SessionExpired

        with monkeypatch.context() as patched:
            patched.setattr(store, "run", held)
            epoch = controller.broker_epoch
            first = asyncio.gather(controller.allocate_producer_ids(1, broker_epoch=epoch))
            await is_held.wait()
        queued = asyncio.gather(controller.allocate_producer_ids(1, broker_epoch=epoch))
        await asyncio.sleep(0)
        await cluster.expire(1)
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(NotController):
                await queued
        assert store.session_id == 0
        may_go_on.set()
        with pytest.raises(NotController):
            await first
        await cluster.until(lambda: cluster.brokers[1].controller_epoch == 2)
        assert (await store.get(paths.PRODUCER_ID_BLOCK)).value == b""


async def test_a_controller_that_does_not_know_that_it_was_replaced_writes_nothing(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        store = cluster.sessions[2]
        await store.set(paths.CONTROLLER_EPOCH, ControllerEpoch(7).encode())
        epoch = cluster.controllers[1].broker_epoch
        with pytest.raises(NotController):
            await cluster.controllers[1].allocate_producer_ids(1, broker_epoch=epoch)
        await cluster.until(lambda: cluster.controller_id is not None)
        assert (await store.get(paths.PRODUCER_ID_BLOCK)).value == b""
        epoch_node = await store.get(paths.CONTROLLER_EPOCH)
        assert ControllerEpoch.decode(epoch_node.value).epoch == 8


async def test_a_controller_that_cannot_begin_gives_up_and_tries_again(stores):
    async with ControlledCluster(stores) as cluster:
        outside = await cluster.open_outside()
        await outside.create(paths.FEATURE, b"broken")
        await cluster.start(1)
        await cluster.until(lambda: cluster._naps._waiting)
        assert cluster.controller_id is None
        await outside.delete(paths.FEATURE)
        await cluster.until(lambda: cluster.controller_id == 1)


async def test_a_controller_that_is_closed_while_it_begins_has_not_failed(monkeypatch, caplog):
    has_begun = asyncio.Event()

    async def begin(tenure):
        has_begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Tenure, "begin", begin)
    async with ControlledCluster(MemoryStores()) as cluster:
        await cluster.start(1)
        await has_begun.wait()
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert not cluster.controllers[1].is_active


async def test_an_id_that_is_taken_is_refused(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start(1)
        with pytest.raises(BrokerIdTaken):
            await cluster.start(1)
