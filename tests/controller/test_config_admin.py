"""Tests of controller/config_admin.py with every store."""

import pytest

from odradek.controller.config_admin import ConfigAdmin
from odradek.controller.config_alterations import (
    ZNODE_BYTES_MAX,
    AlterableConfig,
    AlterConfigOp,
    IncrementalAlterableConfig,
)
from odradek.controller.store import paths
from odradek.controller.store.base import MultiFailed, NotPermitted
from odradek.controller.store.payloads.config import ConfigChangeNotification as ConfigNotice
from odradek.controller.store.payloads.config import EntityConfig
from odradek.protocol.errors import InvalidConfig, InvalidRequest, UnknownTopicOrPartition
from odradek.storage.cleaner.settings import CleanerSettings
from tests.support.controller_scene import controller_scene

T = paths.topic_config("t")
ALICE = paths.user_config("alice")
ALICE_APP = paths.user_client_config(user="alice", client_id="app")
ALICE_TOOL = paths.user_client_config(user="alice", client_id="tool")
QUOTA = {"producer_byte_rate": "1"}


async def open_admin(stores, *topics, server=()):
    store = await stores.open()
    scene = await controller_scene(store)
    for name in topics:
        await scene.add_topic(name, [1])
    return store, ConfigAdmin(store, server_settings=lambda: server)


def setting(name, value):
    return IncrementalAlterableConfig(
        name=name, config_operation=AlterConfigOp.SET.value, value=value
    )


async def config_of(store, entity):
    value, _ = await store.get(entity.path)
    return EntityConfig.decode(value).config


async def notified_entities(store):
    names = paths.CONFIG_CHANGES.sort_children(
        await store.get_children(paths.CONFIG_CHANGES.parent)
    )
    nodes = [await store.get(paths.CONFIG_CHANGES.child_path(name)) for name in names]
    return [ConfigNotice.decode(value).entity for value, _ in nodes]


async def set_to(admin, entity, config):
    await admin.update_entity_config(entity, lambda _: config)


# Topics


@pytest.mark.parametrize("damage", [b"{", b"[]", b'{"config": 7}'])
async def test_unreadable_config_is_treated_as_empty_and_overwritten(stores, caplog, damage):
    store, admin = await open_admin(stores, "t")
    await store.create(T.path, damage)
    await admin.incremental_alter_topic_config("t", [setting("retention.ms", "1")])
    assert await config_of(store, T) == {"retention.ms": "1"}
    assert [record.levelname for record in caplog.records] == ["ERROR"]


async def test_altered_topic_config_is_written_with_a_change_notification(stores):
    store, admin = await open_admin(stores, "t")
    await admin.incremental_alter_topic_config("t", [setting("retention.ms", "1")])
    await admin.incremental_alter_topic_config("t", [setting("segment.ms", "2")])
    assert await config_of(store, T) == {"retention.ms": "1", "segment.ms": "2"}
    assert await notified_entities(store) == [T, T]


async def test_alter_config_replaces_the_whole_config(stores):
    store, admin = await open_admin(stores, "t")
    await admin.incremental_alter_topic_config("t", [setting("retention.ms", "1")])
    await admin.alter_topic_config("t", [AlterableConfig(name="segment.ms", value="2")])
    assert await config_of(store, T) == {"segment.ms": "2"}


async def test_validate_only_changes_nothing(stores):
    store, admin = await open_admin(stores, "t")
    await admin.incremental_alter_topic_config(
        "t", [setting("retention.ms", "1")], validate_only=True
    )
    with pytest.raises(InvalidConfig):
        await admin.incremental_alter_topic_config(
            "t", [setting("retention.ms", "soon")], validate_only=True
        )
    assert await store.exists(T.path) is None
    assert await notified_entities(store) == []


async def test_config_of_missing_or_deleted_topic_is_not_altered(stores):
    store, admin = await open_admin(stores, "going")
    await store.create(paths.topic_to_delete("going"))
    for name in ("absent", "a/b", "going"):
        with pytest.raises(UnknownTopicOrPartition):
            await admin.incremental_alter_topic_config(name, [setting("retention.ms", "1")])
    with pytest.raises(InvalidRequest):
        await admin.incremental_alter_topic_config("", [setting("retention.ms", "1")])
    assert await notified_entities(store) == []


async def test_malformed_change_is_rejected_before_the_topic_is_looked_up(stores):
    _, admin = await open_admin(stores)
    with pytest.raises(InvalidRequest):
        await admin.incremental_alter_topic_config("absent", [setting("retention.ms", None)])
    with pytest.raises(UnknownTopicOrPartition):
        await admin.incremental_alter_topic_config("absent", [setting("retention.ms", "soon")])


async def test_topic_config_is_validated_with_the_server_settings(stores):
    server = [CleanerSettings(max_compaction_lag_ms=5)]
    _, admin = await open_admin(stores, "t", server=server)
    with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms"):
        await admin.incremental_alter_topic_config("t", [setting("min.compaction.lag.ms", "6")])


async def test_topic_with_empty_config_keeps_its_znode(stores):
    store, admin = await open_admin(stores, "t")
    await admin.incremental_alter_topic_config("t", [setting("retention.ms", "1")])
    await admin.alter_topic_config("t", [])
    assert await config_of(store, T) == {}


# Other entities


async def test_default_and_single_broker_configs_are_written(stores):
    store, admin = await open_admin(stores)
    for number in (None, 2):
        await set_to(admin, paths.broker_config(number), {"log.retention.ms": "1"})
    assert await config_of(store, paths.broker_config(None)) == {"log.retention.ms": "1"}
    assert [str(entity) for entity in await notified_entities(store)] == [
        "brokers/<default>",
        "brokers/2",
    ]


async def test_concurrent_config_update_is_not_lost(stores):
    store, admin = await open_admin(stores)
    configs_before = []

    async def other_writes(operations):
        store.multi = original
        await set_to(admin, ALICE, {"theirs": "1"})
        return await original(operations)

    def merge_config(config):
        configs_before.append(config)
        return {**config, "ours": "2"}

    for first in (True, False):
        original, store.multi = store.multi, other_writes
        await admin.update_entity_config(ALICE, merge_config)
        assert await config_of(store, ALICE) == {"theirs": "1", "ours": "2"}
        if first:
            await set_to(admin, ALICE, {"theirs": "0"})
    assert configs_before == [{}, {"theirs": "1"}, {"theirs": "0"}, {"theirs": "1"}]


async def test_unknown_json_fields_are_preserved(stores):
    store, admin = await open_admin(stores)
    await store.create(ALICE.path, EntityConfig({}, {"future": 1}).encode())
    await set_to(admin, ALICE, QUOTA)
    value, _ = await store.get(ALICE.path)
    assert EntityConfig.decode(value) == EntityConfig(QUOTA, {"future": 1})


@pytest.mark.parametrize(
    "entity", [ALICE, paths.client_config("c"), paths.ip_config("10.0.0.1"), ALICE_APP]
)
async def test_removing_the_last_quota_deletes_the_znode(stores, entity):
    store, admin = await open_admin(stores)
    await set_to(admin, entity, QUOTA)
    assert await config_of(store, entity) == QUOTA
    await set_to(admin, entity, {})
    assert await store.get_children(entity.entity_type.path) == []
    assert await notified_entities(store) == [entity, entity]


async def test_groups_znode_exists_only_while_a_group_has_a_config(stores):
    store, admin = await open_admin(stores)
    first_group, second_group = map(paths.group_config, ("one", "other"))
    assert "groups" not in await store.get_children(paths.CONFIG)
    for entity in (first_group, second_group):
        await set_to(admin, entity, {"consumer.session.timeout.ms": "50000"})
    await set_to(admin, first_group, {})
    assert await store.get_children(first_group.entity_type.path) == ["other"]
    await set_to(admin, second_group, {})
    assert "groups" not in await store.get_children(paths.CONFIG)


async def test_user_znode_stays_while_one_of_its_clients_has_a_quota(stores):
    store, admin = await open_admin(stores)
    for entity in (ALICE, ALICE_APP, ALICE_TOOL):
        await set_to(admin, entity, QUOTA)
    await set_to(admin, ALICE, {})
    assert await config_of(store, ALICE) == {}
    await set_to(admin, ALICE_APP, {})
    assert await config_of(store, ALICE_TOOL) == QUOTA
    await set_to(admin, ALICE_TOOL, {})
    assert await store.get_children(paths.EntityType.USER.path) == []


async def test_user_znode_with_quota_stays_without_clients(stores):
    store, admin = await open_admin(stores)
    await set_to(admin, ALICE_APP, QUOTA)
    await set_to(admin, ALICE, QUOTA)
    await set_to(admin, ALICE_APP, {})
    assert await config_of(store, ALICE) == QUOTA
    assert await store.get_children(ALICE.path) == []


async def test_removing_a_missing_config_only_writes_a_notification(stores):
    store, admin = await open_admin(stores)
    await set_to(admin, ALICE_APP, {})
    assert await store.get_children(paths.EntityType.USER.path) == []
    assert await notified_entities(store) == [ALICE_APP]


async def test_config_larger_than_a_znode_is_rejected(stores):
    _, admin = await open_admin(stores)
    with pytest.raises(InvalidConfig, match="exceeds the maximum size"):
        await set_to(admin, ALICE, {"name": "x" * ZNODE_BYTES_MAX})


async def test_store_error_is_raised_unchanged(stores):
    store, admin = await open_admin(stores)

    async def fail_multi(_):
        raise MultiFailed(0, NotPermitted(ALICE.path))

    store.multi = fail_multi
    with pytest.raises(NotPermitted):
        await set_to(admin, ALICE, QUOTA)
