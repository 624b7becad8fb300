"""Configurations and the notices of their changes, as Kafka writes them and ever wrote them."""

from dataclasses import replace

import pytest

from odradek.controller.store.paths import topic_config, user_client_config
from odradek.controller.store.payloads.config import ConfigChange, EntityConfig
from odradek.controller.store.payloads.fields import PayloadDamaged

OFFSETS_TOPIC = {
    "segment.bytes": "104857600",
    "cleanup.policy": "compact",
    "compression.type": "producer",
}


@pytest.mark.parametrize(
    ("config", "value"),
    [
        ({}, b'{"version":1,"config":{}}'),
        ({"retention.ms": "1000"}, b'{"version":1,"config":{"retention.ms":"1000"}}'),
        (
            OFFSETS_TOPIC,
            b'{"version":1,"config":{"compression.type":"producer","cleanup.policy":"compact",'
            b'"segment.bytes":"104857600"}}',
        ),
    ],
)
def test_a_configuration_is_written_as_kafka_writes_it(config, value):
    assert EntityConfig(config).encode() == value
    assert EntityConfig.decode(value).config == config


@pytest.mark.parametrize("value", [b"", b"{}", b'{"version":1}', b'{"version":1,"config":null}'])
def test_a_node_without_a_configuration_has_an_empty_one(value):
    assert EntityConfig.decode(value) == EntityConfig({})


def test_unknown_fields_outlive_a_change():
    config = EntityConfig.decode(b'{"version":1,"config":{"a":"1"},"note":"x"}')
    changed = replace(config, config={"b": "2"})
    assert changed.encode() == b'{"version":1,"config":{"b":"2"},"note":"x"}'


@pytest.mark.parametrize(
    "value", [b"x", b"[]", b'{"config":[]}', b'{"config":{"a":1}}', b'{"config":{"a":null}}']
)
def test_what_is_no_configuration_is_refused(value):
    with pytest.raises(PayloadDamaged, match=r"^/config/topics/t: "):
        EntityConfig.decode(value, "/config/topics/t")


def test_a_configuration_does_not_show_its_secrets():
    assert "secret" not in repr(EntityConfig({"ssl.keystore.password": "secret"}))


@pytest.mark.parametrize(
    ("entity", "value"),
    [
        (topic_config("T"), b'{"version":2,"entity_path":"topics/T"}'),
        (
            user_client_config(user="a/b", client_id=None),
            b'{"version":2,"entity_path":"users/a%2Fb/clients/<default>"}',
        ),
    ],
)
def test_a_change_is_written_as_kafka_writes_it(entity, value):
    assert ConfigChange(entity).encode() == value
    assert ConfigChange.decode(value) == ConfigChange(entity)


@pytest.mark.parametrize(
    ("kind", "path"), [("topics", "/config/topics/T"), ("clients", "/config/clients/T")]
)
def test_a_change_of_version_1_is_read(kind, path):
    value = f'{{"version":1,"entity_type":"{kind}","entity_name":"T"}}'.encode()
    assert ConfigChange.decode(value).entity.path == path


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"topics/T",
        b'"topics/T"',
        b'{"entity_path":"topics/T"}',
        b'{"version":3,"entity_path":"topics/T"}',
        b'{"version":2}',
        b'{"version":2,"entity_path":"T"}',
        b'{"version":2,"entity_path":"client-metrics/T"}',
        b'{"version":2,"entity_path":1}',
        b'{"version":1,"entity_path":"topics/T"}',
        b'{"version":1,"entity_type":"users","entity_name":"u"}',
        b'{"version":1,"entity_type":"topics"}',
        b'{"version":1,"entity_type":"topics","entity_name":""}',
    ],
)
def test_what_is_no_change_is_refused(value):
    with pytest.raises(PayloadDamaged, match=r"^/config/changes/config_change_0000000001: "):
        ConfigChange.decode(value, "/config/changes/config_change_0000000001")
