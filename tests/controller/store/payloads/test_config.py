"""Config znodes and config change notifications in all versions that Kafka has written."""

from dataclasses import replace

import pytest

from odradek.controller.store.paths import topic_config, user_client_config
from odradek.controller.store.payloads.config import ConfigChangeNotification, EntityConfig
from odradek.controller.store.payloads.json_object import CorruptPayload

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
def test_config_is_encoded_as_in_kafka(config, value):
    assert EntityConfig(config).encode() == value
    assert EntityConfig.decode(value).config == config


@pytest.mark.parametrize("value", [b"", b"{}", b'{"version":1}', b'{"version":1,"config":null}'])
def test_znode_without_a_config_decodes_to_an_empty_config(value):
    assert EntityConfig.decode(value) == EntityConfig({})


def test_unknown_fields_survive_a_change():
    config = EntityConfig.decode(b'{"version":1,"config":{"a":"1"},"note":"x"}')
    changed = replace(config, config={"b": "2"})
    assert changed.encode() == b'{"version":1,"config":{"b":"2"},"note":"x"}'


@pytest.mark.parametrize(
    "value", [b"x", b"[]", b'{"config":[]}', b'{"config":{"a":1}}', b'{"config":{"a":null}}']
)
def test_malformed_config_is_rejected(value):
    with pytest.raises(CorruptPayload, match=r"^/config/topics/t: "):
        EntityConfig.decode(value, "/config/topics/t")


def test_repr_of_a_config_shows_no_password():
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
def test_change_notification_is_encoded_as_in_kafka(entity, value):
    assert ConfigChangeNotification(entity).encode() == value
    assert ConfigChangeNotification.decode(value) == ConfigChangeNotification(entity)


@pytest.mark.parametrize(
    ("entity_type", "path"), [("topics", "/config/topics/T"), ("clients", "/config/clients/T")]
)
def test_change_notification_of_version_1_is_decoded(entity_type, path):
    value = f'{{"version":1,"entity_type":"{entity_type}","entity_name":"T"}}'.encode()
    assert ConfigChangeNotification.decode(value).entity.path == path


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
def test_malformed_change_notification_is_rejected(value):
    with pytest.raises(CorruptPayload, match=r"^/config/changes/config_change_0000000001: "):
        ConfigChangeNotification.decode(value, "/config/changes/config_change_0000000001")
