"""Tests of controller/registration.py with every store."""

import asyncio

import pytest

from odradek.controller.metadata_version import LATEST, MetadataVersion
from odradek.controller.registration import (
    UNKNOWN_BROKER_EPOCH,
    BrokerIdentity,
    BrokerIdTaken,
    BrokerRegistrar,
    create_or_get_cluster_id,
    create_top_level_paths,
    generate_broker_id,
)
from odradek.controller.store import paths
from odradek.controller.store.base import Delete
from odradek.controller.store.payloads.broker import BrokerRegistration
from tests.support.controller_scene import LISTENER, registration

TIMEOUT_S = 20
OLD = MetadataVersion.parse("2.6")


def identity(broker=1):
    return BrokerIdentity(broker, registration(broker), LISTENER)


async def open_store(stores):
    store = await stores.open()
    await create_top_level_paths(store)
    return store


async def test_top_level_paths_can_be_created_twice(stores):
    store = await open_store(stores)
    await create_top_level_paths(store)
    assert {"seqid", "ids", "topics"} == set(await store.get_children("/brokers"))


async def test_first_proposed_cluster_id_is_kept(stores):
    store = await open_store(stores)
    assert await create_or_get_cluster_id(store, "first") == "first"
    assert await create_or_get_cluster_id(store, "second") == "first"


async def test_generated_broker_ids_follow_the_reserved_range(stores):
    store = await open_store(stores)
    ids = [await generate_broker_id(store, reserved_broker_max_id=1000) for _ in range(3)]
    assert ids == [1001, 1002, 1003]


async def test_broker_epoch_is_the_zxid_of_its_registration(stores):
    store = await open_store(stores)
    broker = BrokerRegistrar(store, identity(), LATEST)
    assert broker.epoch == UNKNOWN_BROKER_EPOCH
    epoch = await broker.register()
    node = await store.get(paths.broker(1))
    assert node.stat.created_zxid == epoch == broker.epoch
    assert node.stat.ephemeral_owner == store.session_id
    # Kafka also creates the znode without a value and then sets it.
    assert node.stat.version == 1
    assert BrokerRegistration.decode(node.value) == registration(1)


async def test_registration_whose_response_was_lost_succeeds(stores):
    store = await open_store(stores)
    first = await BrokerRegistrar(store, identity(), LATEST).register()
    assert await BrokerRegistrar(store, identity(), LATEST).register() == first


async def test_registration_with_taken_broker_id_is_rejected(stores):
    store = await open_store(stores)
    await BrokerRegistrar(await stores.open(), identity(), LATEST).register()
    with pytest.raises(BrokerIdTaken, match="/brokers/ids/1"):
        await BrokerRegistrar(store, identity(), LATEST).register()


async def test_registration_waits_until_the_broker_id_is_free(stores):
    store, other = await open_store(stores), await stores.open()
    first = BrokerRegistrar(other, identity(), LATEST)
    old = await first.register()
    async with asyncio.TaskGroup() as tasks:
        broker = BrokerRegistrar(store, identity(), LATEST)
        registering = tasks.create_task(broker.register_with_timeout(TIMEOUT_S))
        # An update by the other broker must not be taken for its departure.
        for number in (7, 8):
            await first.update(registration(number))
            assert (await store.get(paths.broker(1))).stat.created_zxid == old
            assert not registering.done()
        await other.close()
    assert registering.result() > old


async def test_registration_fails_when_the_broker_id_stays_taken(stores):
    store = await open_store(stores)
    epoch = await BrokerRegistrar(await stores.open(), identity(), LATEST).register()
    with pytest.raises(BrokerIdTaken, match="/brokers/ids/1"):
        await BrokerRegistrar(store, identity(), LATEST).register_with_timeout(0.05)
    assert (await store.get(paths.broker(1))).stat.created_zxid == epoch


async def test_znode_of_an_earlier_own_session_is_recreated(stores):
    other, store = await open_store(stores), await stores.open()
    broker = BrokerRegistrar(store, identity(), LATEST)
    earlier_session = BrokerRegistrar(other, identity(), LATEST)
    old = await earlier_session.register()
    # Simulate a ZooKeeper that did not delete the znode with its session.
    broker._own_session_ids.add(other.session_id)
    assert await broker.register() > old
    assert (await store.get(paths.broker(1))).stat.ephemeral_owner == store.session_id


async def test_updated_registration_keeps_the_broker_epoch(stores):
    store = await open_store(stores)
    broker = BrokerRegistrar(store, identity(), LATEST)
    epoch = await broker.register()
    await broker.update(registration(7))
    node = await store.get(paths.broker(1))
    assert (node.stat.created_zxid, node.stat.version) == (epoch, 2)
    assert BrokerRegistration.decode(node.value) == registration(7)


async def test_old_metadata_version_registers_without_features(stores):
    store = await open_store(stores)
    await BrokerRegistrar(store, identity(), OLD).register()
    assert b'"version":4' in (await store.get(paths.broker(1))).value


async def test_registration_succeeds_when_the_old_znode_disappears_during_the_check(stores):
    store = await open_store(stores)
    broker = BrokerRegistrar(store, identity(), LATEST)
    await store.create(paths.broker(1), is_ephemeral=True)
    get_node = broker._get_node

    async def get_node_after_deletion(path):
        await store.run([Delete(path)])
        return await get_node(path)

    broker._get_node = get_node_after_deletion
    assert await broker.register() == (await store.get(paths.broker(1))).stat.created_zxid
