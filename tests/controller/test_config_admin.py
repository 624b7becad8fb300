"""Tests of controller/config_admin.py, on every store."""

import pytest

from odradek.controller.config_admin import ConfigAdmin
from odradek.controller.config_alterations import (
    NODE_BYTES_MAX,
    ConfigChange,
    ConfigText,
    Operation,
)
from odradek.controller.store import paths
from odradek.controller.store.base import MultiFailed, NotPermitted
from odradek.controller.store.payloads.config import ConfigChange as ConfigNotice
from odradek.controller.store.payloads.config import EntityConfig
from odradek.protocol.errors import InvalidConfig, InvalidRequest, UnknownTopicOrPartition
from odradek.storage.cleaner.settings import CleanerSettings
from tests.support.controller_scene import controller_scene

T = paths.topic_config("t")
ALICE = paths.user_config("alice")
HER_APP = paths.user_client_config(user="alice", client_id="app")
HER_TOOL = paths.user_client_config(user="alice", client_id="tool")
QUOTA = {"producer_byte_rate": "1"}


async def opened(stores, *topics, server=()):
    store = await stores.open()
    scene = await controller_scene(store)
    for name in topics:
        await scene.add_topic(name, [1])
    return store, ConfigAdmin(store, server=lambda: server)


def setting(name, value):
    return ConfigChange(name=name, config_operation=Operation.SET.value, value=value)


async def config_of(store, entity):
    value, _ = await store.get(entity.path)
    return EntityConfig.decode(value).config


async def notices(store):
    names = paths.CONFIG_CHANGES.in_order(await store.children(paths.CONFIG_CHANGES.parent))
    found = [await store.get(paths.CONFIG_CHANGES.child(name)) for name in names]
    return [ConfigNotice.decode(value).entity for value, _ in found]


async def set_to(admin, entity, config):
    await admin.alter(entity, lambda _: config)


# Topics


@pytest.mark.parametrize("damage", [b"{", b"[]", b'{"config": 7}'])
async def test_what_cannot_be_read_counts_as_nothing_and_is_mended(stores, caplog, damage):
    store, admin = await opened(stores, "t")
    await store.create(T.path, damage)
    await admin.alter_topic("t", [setting("retention.ms", "1")])
    assert await config_of(store, T) == {"retention.ms": "1"}
    assert [record.levelname for record in caplog.records] == ["ERROR"]


async def test_a_topic_is_altered_and_all_brokers_are_told(stores):
    store, admin = await opened(stores, "t")
    await admin.alter_topic("t", [setting("retention.ms", "1")])
    await admin.alter_topic("t", [setting("segment.ms", "2")])
    assert await config_of(store, T) == {"retention.ms": "1", "segment.ms": "2"}
    assert await notices(store) == [T, T]


async def test_a_configuration_is_replaced_as_a_whole(stores):
    store, admin = await opened(stores, "t")
    await admin.alter_topic("t", [setting("retention.ms", "1")])
    await admin.replace_topic("t", [ConfigText(name="segment.ms", value="2")])
    assert await config_of(store, T) == {"segment.ms": "2"}


async def test_what_is_only_checked_changes_nothing(stores):
    store, admin = await opened(stores, "t")
    await admin.alter_topic("t", [setting("retention.ms", "1")], validate_only=True)
    with pytest.raises(InvalidConfig):
        await admin.alter_topic("t", [setting("retention.ms", "soon")], validate_only=True)
    assert await store.exists(T.path) is None
    assert await notices(store) == []


async def test_a_topic_that_is_not_there_is_not_altered(stores):
    store, admin = await opened(stores, "going")
    await store.create(paths.topic_to_delete("going"))
    for name in ("absent", "a/b", "going"):
        with pytest.raises(UnknownTopicOrPartition):
            await admin.alter_topic(name, [setting("retention.ms", "1")])
    with pytest.raises(InvalidRequest):
        await admin.alter_topic("", [setting("retention.ms", "1")])
    assert await notices(store) == []


async def test_a_malformed_change_is_a_mistake_before_an_unknown_topic_is(stores):
    _, admin = await opened(stores)
    with pytest.raises(InvalidRequest):
        await admin.alter_topic("absent", [setting("retention.ms", None)])
    with pytest.raises(UnknownTopicOrPartition):
        await admin.alter_topic("absent", [setting("retention.ms", "soon")])


async def test_a_topic_is_checked_together_with_its_server(stores):
    server = [CleanerSettings(max_compaction_lag_ms=5)]
    _, admin = await opened(stores, "t", server=server)
    with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms"):
        await admin.alter_topic("t", [setting("min.compaction.lag.ms", "6")])


async def test_a_topic_without_settings_keeps_its_node(stores):
    store, admin = await opened(stores, "t")
    await admin.alter_topic("t", [setting("retention.ms", "1")])
    await admin.replace_topic("t", [])
    assert await config_of(store, T) == {}


# Anything else


async def test_all_brokers_and_one_of_them_are_configured_alike(stores):
    store, admin = await opened(stores)
    for number in (None, 2):
        await set_to(admin, paths.broker_config(number), {"log.retention.ms": "1"})
    assert await config_of(store, paths.broker_config(None)) == {"log.retention.ms": "1"}
    assert [str(entity) for entity in await notices(store)] == ["brokers/<default>", "brokers/2"]


async def test_what_came_between_is_not_lost(stores):
    store, admin = await opened(stores)
    seen = []

    async def other_writes(operations):
        store.multi = original
        await set_to(admin, ALICE, {"theirs": "1"})
        return await original(operations)

    def decide(config):
        seen.append(config)
        return {**config, "ours": "2"}

    for first in (True, False):
        original, store.multi = store.multi, other_writes
        await admin.alter(ALICE, decide)
        assert await config_of(store, ALICE) == {"theirs": "1", "ours": "2"}
        if first:
            await set_to(admin, ALICE, {"theirs": "0"})
    assert seen == [{}, {"theirs": "1"}, {"theirs": "0"}, {"theirs": "1"}]


async def test_unknown_fields_are_written_again(stores):
    store, admin = await opened(stores)
    await store.create(ALICE.path, EntityConfig({}, {"future": 1}).encode())
    await set_to(admin, ALICE, QUOTA)
    value, _ = await store.get(ALICE.path)
    assert EntityConfig.decode(value) == EntityConfig(QUOTA, {"future": 1})


@pytest.mark.parametrize(
    "entity", [ALICE, paths.client_config("c"), paths.ip_config("10.0.0.1"), HER_APP]
)
async def test_a_quota_that_is_gone_leaves_nothing(stores, entity):
    store, admin = await opened(stores)
    await set_to(admin, entity, QUOTA)
    assert await config_of(store, entity) == QUOTA
    await set_to(admin, entity, {})
    assert await store.children(entity.kind.path) == []
    assert await notices(store) == [entity, entity]


async def test_the_node_of_groups_comes_with_the_first_and_goes_with_the_last(stores):
    store, admin = await opened(stores)
    one, other = map(paths.group_config, ("one", "other"))
    assert "groups" not in await store.children(paths.CONFIG)
    for entity in (one, other):
        await set_to(admin, entity, {"consumer.session.timeout.ms": "50000"})
    await set_to(admin, one, {})
    assert await store.children(one.kind.path) == ["other"]
    await set_to(admin, other, {})
    assert "groups" not in await store.children(paths.CONFIG)


async def test_a_user_stays_while_a_client_of_theirs_has_a_quota(stores):
    store, admin = await opened(stores)
    for entity in (ALICE, HER_APP, HER_TOOL):
        await set_to(admin, entity, QUOTA)
    await set_to(admin, ALICE, {})
    assert await config_of(store, ALICE) == {}
    await set_to(admin, HER_APP, {})
    assert await config_of(store, HER_TOOL) == QUOTA
    await set_to(admin, HER_TOOL, {})
    assert await store.children(paths.EntityType.USER.path) == []


async def test_a_user_with_a_quota_stays_without_clients(stores):
    store, admin = await opened(stores)
    await set_to(admin, HER_APP, QUOTA)
    await set_to(admin, ALICE, QUOTA)
    await set_to(admin, HER_APP, {})
    assert await config_of(store, ALICE) == QUOTA
    assert await store.children(ALICE.path) == []


async def test_nothing_becomes_of_nothing_but_a_notice(stores):
    store, admin = await opened(stores)
    await set_to(admin, HER_APP, {})
    assert await store.children(paths.EntityType.USER.path) == []
    assert await notices(store) == [HER_APP]


async def test_a_configuration_must_fit_into_its_node(stores):
    _, admin = await opened(stores)
    with pytest.raises(InvalidConfig, match="longer"):
        await set_to(admin, ALICE, {"name": "x" * NODE_BYTES_MAX})


async def test_a_failure_of_the_store_is_no_refusal(stores):
    store, admin = await opened(stores)

    async def refuse(_):
        raise MultiFailed(0, NotPermitted(ALICE.path))

    store.multi = refuse
    with pytest.raises(NotPermitted):
        await set_to(admin, ALICE, QUOTA)
