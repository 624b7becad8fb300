"""Election and resignation of the controller on one broker, with every store."""

import asyncio
import logging

import pytest

from odradek.controller.active_controller import ActiveController
from odradek.controller.controller import KafkaController
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.registration import BrokerIdTaken, create_top_level_paths
from odradek.controller.store import paths
from odradek.controller.store.base import SessionExpired
from odradek.controller.store.payloads.controller import ControllerEpoch
from odradek.protocol.errors import NotController
from tests.support.controlled_cluster import ControlledCluster
from tests.support.stores import MemoryStores

PATIENCE_S = 5


async def test_broker_registers_again_after_session_expiry_and_can_be_elected(stores):
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


async def test_session_that_expires_before_registration_is_replaced():
    stores = MemoryStores()
    async with ControlledCluster(stores) as cluster:
        store = await stores.open()
        await create_top_level_paths(store)
        store.expire()
        controller = KafkaController(
            store, cluster.identity(1), ControllerSettings(), cluster.world()
        )
        cluster.controllers[1], cluster.sessions[1] = controller, store
        epoch = await controller.start()
        await cluster.until(lambda: controller.controller_id == 1)
        assert controller.broker_epoch == epoch


async def test_brokers_are_notified_of_a_new_controller():
    async with ControlledCluster(MemoryStores()) as cluster:
        await cluster.start_three()
        cluster.told_of_controllers.clear()
        await cluster.kill(1)
        await cluster.until(lambda: cluster.controller_id in (2, 3))
        # The first notification may say that there is no controller.
        await cluster.until(lambda: cluster.told_of_controllers[2] >= 1)
        await cluster.until(lambda: cluster.told_of_controllers[3] >= 1)


async def test_controller_resigns_when_its_session_expires(stores):
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


async def test_pending_request_fails_with_not_controller_when_session_expires():
    stores = MemoryStores()
    async with ControlledCluster(stores) as cluster:
        await cluster.start_three()
        cluster.sessions[1].writes_left = 0
        epoch = cluster.controllers[1].broker_epoch
        with pytest.raises(NotController):
            await cluster.controllers[1].allocate_producer_ids(1, broker_epoch=epoch)
        await cluster.until(lambda: cluster.controller_id in (2, 3))


async def test_queued_request_fails_before_the_next_session_starts(
    monkeypatch,
):
    async with ControlledCluster(MemoryStores()) as cluster:
        await cluster.start(1)
        await cluster.until(lambda: cluster.controller_id == 1)
        controller, store = cluster.controllers[1], cluster.sessions[1]
        is_blocked, may_continue = asyncio.Event(), asyncio.Event()

        async def blocked_run(*_, **__):
            is_blocked.set()
            await may_continue.wait()
            raise SessionExpired

        with monkeypatch.context() as patched:
            patched.setattr(store, "run", blocked_run)
            epoch = controller.broker_epoch
            first = asyncio.gather(controller.allocate_producer_ids(1, broker_epoch=epoch))
            await is_blocked.wait()
        queued = asyncio.gather(controller.allocate_producer_ids(1, broker_epoch=epoch))
        await asyncio.sleep(0)
        await cluster.expire(1)
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(NotController):
                await queued
        assert store.session_id == 0
        may_continue.set()
        with pytest.raises(NotController):
            await first
        await cluster.until(lambda: cluster.brokers[1].controller_epoch == 2)
        assert (await store.get(paths.PRODUCER_ID_BLOCK)).value == b""


async def test_controller_with_old_epoch_writes_nothing(stores):
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


async def test_controller_that_fails_to_start_resigns_and_retries(stores):
    async with ControlledCluster(stores) as cluster:
        other_session = await cluster.open_outside()
        await other_session.create(paths.FEATURE, b"broken")
        await cluster.start(1)
        await cluster.until(lambda: cluster._naps._waiting)
        assert cluster.controller_id is None
        await other_session.delete(paths.FEATURE)
        await cluster.until(lambda: cluster.controller_id == 1)


async def test_close_during_controller_failover_logs_no_error(monkeypatch, caplog):
    has_begun = asyncio.Event()

    async def block_failover(active_controller):
        has_begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(ActiveController, "on_controller_failover", block_failover)
    async with ControlledCluster(MemoryStores()) as cluster:
        await cluster.start(1)
        await has_begun.wait()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert not cluster.controllers[1].is_active


async def test_registration_with_taken_broker_id_is_rejected(stores):
    async with ControlledCluster(stores) as cluster:
        await cluster.start(1)
        with pytest.raises(BrokerIdTaken):
            await cluster.start(1)
