"""Tests of controller/registration.py, on every store."""

import asyncio

import pytest

from odradek.controller.registration import (
    NOT_REGISTERED,
    BrokerIdTaken,
    Identity,
    Registration,
    cluster_id,
    create_roots,
    generated_broker_id,
)
from odradek.controller.request_versions import LATEST, InterBrokerVersion
from odradek.controller.store import paths
from odradek.controller.store.base import Delete
from odradek.controller.store.payloads.broker import BrokerRegistration
from tests.support.controller_scene import LISTENER, registration

PATIENCE_S = 20
OLD = InterBrokerVersion.parse("2.6")


def identity(broker=1):
    return Identity(broker, registration(broker), LISTENER)


async def rooted(stores):
    store = await stores.open()
    await create_roots(store)
    return store


async def test_the_roots_are_created_once_and_found_again(stores):
    store = await rooted(stores)
    await create_roots(store)
    assert {"seqid", "ids", "topics"} == set(await store.children("/brokers"))


async def test_the_first_proposed_id_is_the_clusters(stores):
    store = await rooted(stores)
    assert await cluster_id(store, "first") == "first"
    assert await cluster_id(store, "second") == "first"


async def test_generated_ids_follow_the_reserved_ones(stores):
    store = await rooted(stores)
    ids = [await generated_broker_id(store, highest_reserved=1000) for _ in range(3)]
    assert ids == [1001, 1002, 1003]


async def test_the_epoch_of_a_broker_is_the_transaction_that_registered_it(stores):
    store = await rooted(stores)
    broker = Registration(store, identity(), LATEST)
    assert broker.epoch == NOT_REGISTERED
    epoch = await broker.register()
    node = await store.get(paths.broker(1))
    assert node.stat.created_zxid == epoch == broker.epoch
    assert node.stat.ephemeral_owner == store.session_id
    # As Kafka's: created without a value, then written.
    assert node.stat.version == 1
    assert BrokerRegistration.decode(node.value) == registration(1)


async def test_who_did_not_hear_of_its_registration_is_registered_all_the_same(stores):
    store = await rooted(stores)
    first = await Registration(store, identity(), LATEST).register()
    assert await Registration(store, identity(), LATEST).register() == first


async def test_an_id_that_another_has_is_refused(stores):
    store = await rooted(stores)
    await Registration(await stores.open(), identity(), LATEST).register()
    with pytest.raises(BrokerIdTaken, match="/brokers/ids/1"):
        await Registration(store, identity(), LATEST).register()


async def test_whoever_has_the_id_may_be_given_time_to_be_forgotten(stores):
    store, other = await rooted(stores), await stores.open()
    first = Registration(other, identity(), LATEST)
    old = await first.register()
    async with asyncio.TaskGroup() as tasks:
        broker = Registration(store, identity(), LATEST)
        registering = tasks.create_task(broker.register_within(PATIENCE_S))
        # It may write meanwhile, which does not mean that it is gone.
        for number in (7, 8):
            await first.change(registration(number))
            assert (await store.get(paths.broker(1))).stat.created_zxid == old
            assert not registering.done()
        await other.close()
    assert registering.result() > old


async def test_who_is_not_forgotten_in_time_keeps_the_id(stores):
    store = await rooted(stores)
    epoch = await Registration(await stores.open(), identity(), LATEST).register()
    with pytest.raises(BrokerIdTaken, match="/brokers/ids/1"):
        await Registration(store, identity(), LATEST).register_within(0.05)
    assert (await store.get(paths.broker(1))).stat.created_zxid == epoch


async def test_what_an_earlier_session_of_ours_left_is_made_again(stores):
    other, store = await rooted(stores), await stores.open()
    broker = Registration(store, identity(), LATEST)
    left = Registration(other, identity(), LATEST)
    old = await left.register()
    # As if ZooKeeper had forgotten to delete the node with the session.
    broker._sessions.add(other.session_id)
    assert await broker.register() > old
    assert (await store.get(paths.broker(1))).stat.ephemeral_owner == store.session_id


async def test_a_changed_registration_keeps_its_epoch(stores):
    store = await rooted(stores)
    broker = Registration(store, identity(), LATEST)
    epoch = await broker.register()
    await broker.change(registration(7))
    node = await store.get(paths.broker(1))
    assert (node.stat.created_zxid, node.stat.version) == (epoch, 2)
    assert BrokerRegistration.decode(node.value) == registration(7)


async def test_brokers_that_speak_an_old_version_tell_no_features(stores):
    store = await rooted(stores)
    await Registration(store, identity(), OLD).register()
    assert b'"version":4' in (await store.get(paths.broker(1))).value


async def test_a_node_that_goes_while_it_is_looked_at_is_created(stores):
    store = await rooted(stores)
    broker = Registration(store, identity(), LATEST)
    await store.create(paths.broker(1), is_ephemeral=True)
    found = broker._node

    async def gone(path):
        await store.run([Delete(path)])
        return await found(path)

    broker._node = gone
    assert await broker.register() == (await store.get(paths.broker(1))).stat.created_zxid
