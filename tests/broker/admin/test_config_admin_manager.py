"""Tests of broker/admin/config_admin.py and config_descriptions.py.

What Kafka answered is in tests/broker/handlers/test_recorded_configs.py; here is what it was not
asked.
"""

import pytest

from odradek.broker.admin.resources import ResourceType
from odradek.broker.settings.stored import stored_config
from odradek.controller.config_alterations import ConfigChange, ConfigText, Operation
from odradek.controller.store import paths
from odradek.controller.store.payloads.config import EntityConfig
from odradek.protocol.errors import InvalidConfig, InvalidRequest
from tests.support.config_scene import config_scene

OURS = paths.broker_config(1)


def setting(name, value):
    return ConfigChange(name=name, config_operation=Operation.SET.value, value=value)


async def shown(scene, kind, name):
    return {each.name: each for each in await scene.descriptions.describe(kind, name)}


async def test_a_change_leaves_out_what_could_never_be_in_force():
    scene = await config_scene()
    left = {"broker.id": "9", "log.retention.ms": "1"}
    await scene.store.create(OURS.path, EntityConfig(left).encode())
    changes = [setting("log.roll.ms", "5")]
    await scene.admin.alter(ResourceType.BROKER, "1", changes, validate_only=False)
    assert await stored_config(scene.store, OURS) == {"log.retention.ms": "1", "log.roll.ms": "5"}


async def test_what_is_replaced_is_gone():
    scene = await config_scene()
    for name in ("log.retention.ms", "log.roll.ms"):
        texts = [ConfigText(name=name, value="5")]
        await scene.admin.replace(ResourceType.BROKER, "", texts, validate_only=False)
    assert await stored_config(scene.store, paths.broker_config(None)) == {"log.roll.ms": "5"}


async def test_what_is_only_looked_at_is_not_written():
    scene = await config_scene()
    changes = [setting("log.roll.ms", "5")]
    await scene.admin.alter(ResourceType.BROKER, "1", changes, validate_only=True)
    assert await stored_config(scene.store, OURS) == {}


async def test_a_number_of_threads_is_compared_with_the_one_in_force():
    scene = await config_scene({"background.threads": "2"})
    changes = [setting("background.threads", "5")]
    with pytest.raises(InvalidRequest, match="must be between 1 and 4"):
        await scene.admin.alter(ResourceType.BROKER, "1", changes, validate_only=False)


async def test_a_secret_is_shown_to_nobody():
    scene = await config_scene(
        {"zookeeper.ssl.keystore.password": "hush", "plugin.password": "hush"}
    )
    changes = [setting("other.plugin.password", "hush")]
    await scene.admin.alter(ResourceType.BROKER, "", changes, validate_only=False)
    await scene.tell()
    for name in ("1", ""):
        descriptions = await scene.descriptions.describe(ResourceType.BROKER, name)
        assert "hush" not in repr(descriptions)
    broker = await shown(scene, ResourceType.BROKER, "1")
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
async def test_a_password_is_not_written_where_others_could_read_it(name):
    scene = await config_scene()
    texts, changes = [ConfigText(name=name, value="hush")], [setting(name, "hush")]
    with pytest.raises(InvalidConfig, match="not stored"):
        await scene.admin.alter(ResourceType.BROKER, "1", changes, validate_only=False)
    with pytest.raises(InvalidConfig, match="not stored"):
        await scene.admin.replace(ResourceType.BROKER, "1", texts, validate_only=False)
    assert await stored_config(scene.store, OURS) == {}
    await scene.admin.alter(ResourceType.BROKER, "1", changes, validate_only=True)


async def test_a_password_that_kafka_has_encrypted_is_left_alone():
    scene = await config_scene()
    left = {"listener.name.internal.ssl.key.password": "cipher:..."}
    await scene.store.create(OURS.path, EntityConfig(left).encode())
    changes = [setting("log.roll.ms", "5")]
    await scene.admin.alter(ResourceType.BROKER, "1", changes, validate_only=False)
    assert await stored_config(scene.store, OURS) == {**left, "log.roll.ms": "5"}


async def test_a_topic_is_described_by_what_is_stored_though_nobody_was_told_yet():
    scene = await config_scene(topics={"t": {}})
    await scene.admin.alter(
        ResourceType.TOPIC, "t", [setting("retention.ms", "5")], validate_only=False
    )
    topic = await shown(scene, ResourceType.TOPIC, "t")
    assert (topic["retention.ms"].value, topic["retention.ms"].config_source) == ("5", 1)


async def test_a_bad_value_in_the_store_is_not_shown(caplog):
    scene = await config_scene(topics={"t": {"retention.ms": "long", "segment.bytes": "5000"}})
    topic = await shown(scene, ResourceType.TOPIC, "t")
    assert (topic["retention.ms"].value, topic["segment.bytes"].value) == ("604800000", "5000")


async def test_every_setting_has_its_documentation():
    scene = await config_scene(topics={"t": {}})
    for kind, name in ((ResourceType.TOPIC, "t"), (ResourceType.BROKER, "1")):
        assert all(each.documentation for each in await scene.descriptions.describe(kind, name))


@pytest.mark.parametrize("number", [0, 1, 3, 64, -1])
def test_other_numbers_are_unknown_resources(number):
    assert ResourceType.of(number) is ResourceType.UNKNOWN


# Groups

GROUP = paths.group_config("readers of/all")
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


async def alter_group(scene, *changes, name="readers of/all", validate_only=False):
    await scene.admin.alter(ResourceType.GROUP, name, changes, validate_only=validate_only)


async def test_a_group_is_configured_and_described_whether_it_is_there_or_not():
    scene = await config_scene({"group.consumer.heartbeat.interval.ms": "6000"})
    await alter_group(scene, setting(SESSION, "50000"))
    assert await stored_config(scene.store, GROUP) == {SESSION: "50000"}
    told = await shown(scene, ResourceType.GROUP, "readers of/all")
    assert {name: each.value for name, each in told.items()} == {
        SESSION: "50000",
        HEARTBEAT: "6000",
    }
    assert (told[SESSION].config_source, told[HEARTBEAT].config_source) == (8, 5)
    (synonym,) = told[HEARTBEAT].synonyms
    assert (synonym.name, synonym.value, synonym.source) == (HEARTBEAT, "6000", 5)
    others = await shown(scene, ResourceType.GROUP, "another")
    assert (others[SESSION].value, others[SESSION].config_source) == ("45000", 5)


async def test_nothing_is_left_of_a_group_that_is_not_configured_any_more():
    scene = await config_scene()
    await alter_group(scene, setting(SESSION, "50000"))
    deletion = ConfigChange(name=SESSION, config_operation=Operation.DELETE.value, value=None)
    await alter_group(scene, deletion)
    assert "groups" not in await scene.store.children("/config")


async def test_what_a_group_is_configured_to_is_replaced():
    scene = await config_scene()
    for name, value in ((SESSION, "50000"), (HEARTBEAT, "7000")):
        texts = [ConfigText(name=name, value=value)]
        await scene.admin.replace(ResourceType.GROUP, "readers of/all", texts, validate_only=False)
    assert await stored_config(scene.store, GROUP) == {HEARTBEAT: "7000"}


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        (SESSION, "44999", "between group.consumer.min.session.timeout.ms and"),
        (SESSION, "60001", "between group.consumer.min.session.timeout.ms and"),
        (HEARTBEAT, "4999", "between group.consumer.min.heartbeat.interval.ms and"),
        (HEARTBEAT, "soon", "consumer.heartbeat.interval.ms=soon"),
        ("retention.ms", "1", "Groups have no such setting: retention.ms"),
    ],
)
async def test_what_a_group_cannot_be_is_refused_and_not_written(name, value, rule):
    scene = await config_scene()
    with pytest.raises(InvalidConfig, match=rule):
        await alter_group(scene, setting(name, value))
    assert "groups" not in await scene.store.children("/config")


async def test_a_groups_sessions_are_longer_than_its_heartbeats_are_apart():
    scene = await config_scene(
        {
            "group.consumer.min.session.timeout.ms": "1",
            "group.consumer.max.heartbeat.interval.ms": "50000",
        }
    )
    with pytest.raises(InvalidConfig, match=f"must be less than {SESSION}"):
        await alter_group(scene, setting(SESSION, "45000"), setting(HEARTBEAT, "45000"))


async def test_groups_have_nothing_in_common():
    scene = await config_scene()
    with pytest.raises(InvalidRequest, match="name one"):
        await alter_group(scene, setting(SESSION, "50000"), name="")
    with pytest.raises(InvalidRequest, match="name one"):
        await scene.descriptions.describe(ResourceType.GROUP, "")


async def test_what_is_only_looked_at_of_a_group_is_not_written():
    scene = await config_scene()
    await alter_group(scene, setting(SESSION, "50000"), validate_only=True)
    assert "groups" not in await scene.store.children("/config")
