"""Changing and describing configs.

The recorded responses of Kafka are in tests/broker/handlers/test_recorded_configs.py; the cases
here are not in the recording.
"""

import pytest

from odradek.broker.admin.config_resources import ResourceType
from odradek.broker.settings.config_store import read_config
from odradek.controller.config_alterations import (
    AlterableConfig,
    AlterConfigOp,
    IncrementalAlterableConfig,
)
from odradek.controller.store import paths
from odradek.controller.store.payloads.config import EntityConfig
from odradek.protocol.errors import InvalidConfig, InvalidRequest
from tests.support.config_scene import config_scene

BROKER_1 = paths.broker_config(1)


def setting(name, value):
    return IncrementalAlterableConfig(
        name=name, config_operation=AlterConfigOp.SET.value, value=value
    )


async def describe(scene, kind, name):
    return {entry.name: entry for entry in await scene.descriptions.describe_configs(kind, name)}


async def test_change_drops_stored_configs_that_can_never_be_in_force():
    scene = await config_scene()
    stored = {"broker.id": "9", "log.retention.ms": "1"}
    await scene.store.create(BROKER_1.path, EntityConfig(stored).encode())
    changes = [setting("log.roll.ms", "5")]
    await scene.admin.incremental_alter_configs(
        ResourceType.BROKER, "1", changes, validate_only=False
    )
    assert await read_config(scene.store, BROKER_1) == {"log.retention.ms": "1", "log.roll.ms": "5"}


async def test_alter_configs_replaces_the_stored_configs():
    scene = await config_scene()
    for name in ("log.retention.ms", "log.roll.ms"):
        texts = [AlterableConfig(name=name, value="5")]
        await scene.admin.alter_configs(ResourceType.BROKER, "", texts, validate_only=False)
    assert await read_config(scene.store, paths.broker_config(None)) == {"log.roll.ms": "5"}


async def test_validate_only_change_is_not_stored():
    scene = await config_scene()
    changes = [setting("log.roll.ms", "5")]
    await scene.admin.incremental_alter_configs(
        ResourceType.BROKER, "1", changes, validate_only=True
    )
    assert await read_config(scene.store, BROKER_1) == {}


async def test_thread_count_is_compared_with_the_current_one():
    scene = await config_scene({"background.threads": "2"})
    changes = [setting("background.threads", "5")]
    with pytest.raises(InvalidRequest, match="must be between 1 and 4"):
        await scene.admin.incremental_alter_configs(
            ResourceType.BROKER, "1", changes, validate_only=False
        )


async def test_secret_is_never_described():
    scene = await config_scene(
        {"zookeeper.ssl.keystore.password": "hush", "plugin.password": "hush"}
    )
    changes = [setting("other.plugin.password", "hush")]
    await scene.admin.incremental_alter_configs(
        ResourceType.BROKER, "", changes, validate_only=False
    )
    await scene.tell()
    for name in ("1", ""):
        descriptions = await scene.descriptions.describe_configs(ResourceType.BROKER, name)
        assert "hush" not in repr(descriptions)
    broker = await describe(scene, ResourceType.BROKER, "1")
    assert broker["zookeeper.ssl.keystore.password"].is_sensitive
    assert broker["plugin.password"].is_sensitive


@pytest.mark.parametrize(
    "name",
    [
        "sasl.jaas.config",
        "listener.name.internal.ssl.keystore.password",
        "listener.name.internal.scram-sha-256.sasl.jaas.config",
    ],
)
async def test_password_is_not_stored_in_plain_text(name):
    scene = await config_scene()
    texts, changes = [AlterableConfig(name=name, value="hush")], [setting(name, "hush")]
    with pytest.raises(InvalidConfig, match="not stored"):
        await scene.admin.incremental_alter_configs(
            ResourceType.BROKER, "1", changes, validate_only=False
        )
    with pytest.raises(InvalidConfig, match="not stored"):
        await scene.admin.alter_configs(ResourceType.BROKER, "1", texts, validate_only=False)
    assert await read_config(scene.store, BROKER_1) == {}
    await scene.admin.incremental_alter_configs(
        ResourceType.BROKER, "1", changes, validate_only=True
    )


async def test_password_encrypted_by_kafka_is_kept():
    scene = await config_scene()
    stored = {"listener.name.internal.ssl.key.password": "cipher:..."}
    await scene.store.create(BROKER_1.path, EntityConfig(stored).encode())
    changes = [setting("log.roll.ms", "5")]
    await scene.admin.incremental_alter_configs(
        ResourceType.BROKER, "1", changes, validate_only=False
    )
    assert await read_config(scene.store, BROKER_1) == {**stored, "log.roll.ms": "5"}


async def test_topic_is_described_from_the_store_before_the_broker_is_notified():
    scene = await config_scene(topics={"t": {}})
    await scene.admin.incremental_alter_configs(
        ResourceType.TOPIC, "t", [setting("retention.ms", "5")], validate_only=False
    )
    topic = await describe(scene, ResourceType.TOPIC, "t")
    assert (topic["retention.ms"].value, topic["retention.ms"].config_source) == ("5", 1)


async def test_invalid_stored_value_is_not_described(caplog):
    scene = await config_scene(topics={"t": {"retention.ms": "long", "segment.bytes": "5000"}})
    topic = await describe(scene, ResourceType.TOPIC, "t")
    assert (topic["retention.ms"].value, topic["segment.bytes"].value) == ("604800000", "5000")


async def test_every_config_has_documentation():
    scene = await config_scene(topics={"t": {}})
    for kind, name in ((ResourceType.TOPIC, "t"), (ResourceType.BROKER, "1")):
        assert all(
            entry.documentation for entry in await scene.descriptions.describe_configs(kind, name)
        )


@pytest.mark.parametrize("number", [0, 1, 3, 64, -1])
def test_other_resource_types_are_unknown(number):
    assert ResourceType.for_id(number) is ResourceType.UNKNOWN


# Groups

GROUP = paths.group_config("readers of/all")
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


async def alter_group(scene, *changes, name="readers of/all", validate_only=False):
    await scene.admin.incremental_alter_configs(
        ResourceType.GROUP, name, changes, validate_only=validate_only
    )


async def test_group_is_configured_and_described_whether_it_exists_or_not():
    scene = await config_scene({"group.consumer.heartbeat.interval.ms": "6000"})
    await alter_group(scene, setting(SESSION, "50000"))
    assert await read_config(scene.store, GROUP) == {SESSION: "50000"}
    configs = await describe(scene, ResourceType.GROUP, "readers of/all")
    assert {name: entry.value for name, entry in configs.items()} == {
        SESSION: "50000",
        HEARTBEAT: "6000",
    }
    assert (configs[SESSION].config_source, configs[HEARTBEAT].config_source) == (8, 5)
    (synonym,) = configs[HEARTBEAT].synonyms
    assert (synonym.name, synonym.value, synonym.source) == (HEARTBEAT, "6000", 5)
    other_configs = await describe(scene, ResourceType.GROUP, "another")
    assert (other_configs[SESSION].value, other_configs[SESSION].config_source) == ("45000", 5)


async def test_group_without_configs_leaves_no_znode():
    scene = await config_scene()
    await alter_group(scene, setting(SESSION, "50000"))
    deletion = IncrementalAlterableConfig(
        name=SESSION, config_operation=AlterConfigOp.DELETE.value, value=None
    )
    await alter_group(scene, deletion)
    assert "groups" not in await scene.store.get_children("/config")


async def test_alter_configs_replaces_the_configs_of_a_group():
    scene = await config_scene()
    for name, value in ((SESSION, "50000"), (HEARTBEAT, "7000")):
        texts = [AlterableConfig(name=name, value=value)]
        await scene.admin.alter_configs(
            ResourceType.GROUP, "readers of/all", texts, validate_only=False
        )
    assert await read_config(scene.store, GROUP) == {HEARTBEAT: "7000"}


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        (SESSION, "44999", "between group.consumer.min.session.timeout.ms and"),
        (SESSION, "60001", "between group.consumer.min.session.timeout.ms and"),
        (HEARTBEAT, "4999", "between group.consumer.min.heartbeat.interval.ms and"),
        (HEARTBEAT, "soon", "consumer.heartbeat.interval.ms=soon"),
        ("retention.ms", "1", "Unknown group config name: retention.ms"),
    ],
)
async def test_invalid_group_config_is_rejected_and_not_stored(name, value, rule):
    scene = await config_scene()
    with pytest.raises(InvalidConfig, match=rule):
        await alter_group(scene, setting(name, value))
    assert "groups" not in await scene.store.get_children("/config")


async def test_session_timeout_of_a_group_must_exceed_its_heartbeat_interval():
    scene = await config_scene(
        {
            "group.consumer.min.session.timeout.ms": "1",
            "group.consumer.max.heartbeat.interval.ms": "50000",
        }
    )
    with pytest.raises(InvalidConfig, match=f"must be less than {SESSION}"):
        await alter_group(scene, setting(SESSION, "45000"), setting(HEARTBEAT, "45000"))


async def test_default_group_configs_are_rejected():
    scene = await config_scene()
    with pytest.raises(InvalidRequest, match="name a group"):
        await alter_group(scene, setting(SESSION, "50000"), name="")
    with pytest.raises(InvalidRequest, match="name a group"):
        await scene.descriptions.describe_configs(ResourceType.GROUP, "")


async def test_validate_only_change_of_a_group_is_not_stored():
    scene = await config_scene()
    await alter_group(scene, setting(SESSION, "50000"), validate_only=True)
    assert "groups" not in await scene.store.get_children("/config")
