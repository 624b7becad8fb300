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
