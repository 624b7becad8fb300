"""The configuration of a topic, client, user, broker, IP address or group, and its notification.

/config/TYPE/NAME

    {"version":1,"config":{"retention.ms":"1000"}}

    A znode that is only a parent (a user's, for the clients of the user) has no value.

/config/changes/config_change_N

    {"version":2,"entity_path":"users/U/clients/C"}

    v1  entity_type and entity_name, for topics and clients
    v2  entity_path
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.controller.store.paths import ConfigEntity, EntityType
from odradek.controller.store.payloads.json_object import JsonObject, write_json
from odradek.controller.store.payloads.key_order import order_like_java_properties


@dataclass(frozen=True, slots=True)
class EntityConfig:
    """The overrides of an entity.  Some are secrets: broker passwords, user credentials."""

    config: Mapping[str, str] = field(repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def encode(self) -> bytes:
        return write_json(
            {"version": 1, "config": order_like_java_properties(self.config)}, self.extra
        )

    @classmethod
    def decode(cls, value: bytes, path: str = "a configuration") -> EntityConfig:
        if not value:
            return cls({})
        fields = JsonObject.parse(value, path)
        return cls(fields.text_map("config"), fields.fields_except({"version", "config"}))


@dataclass(frozen=True, slots=True)
class ConfigChangeNotification:
    """Names the entity whose configuration changed.  Kafka: ConfigEntityChangeNotificationZNode."""

    entity: ConfigEntity
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        return write_json({"version": 2, "entity_path": str(self.entity)}, self.extra)

    @classmethod
    def decode(
        cls, value: bytes, path: str = "a config change notification"
    ) -> ConfigChangeNotification:
        fields = JsonObject.parse(value, path)
        version = fields.int32("version")
        if version not in (1, 2):
            fields.raise_corrupt(f"unknown version {version}")
        entity = _decode_entity_v1(fields) if version == 1 else _decode_entity_v2(fields)
        return cls(entity, fields.fields_except(_KNOWN_FIELDS))


def _decode_entity_v1(fields: JsonObject) -> ConfigEntity:
    entity = _parse_entity(f"{fields.text('entity_type')}/{fields.text('entity_name')}", fields)
    if entity.entity_type not in (EntityType.TOPIC, EntityType.CLIENT):
        fields.raise_corrupt(f"version 1 does not support {entity.entity_type.value}")
    return entity


def _decode_entity_v2(fields: JsonObject) -> ConfigEntity:
    return _parse_entity(fields.text("entity_path"), fields)


def _parse_entity(entity_path: str, fields: JsonObject) -> ConfigEntity:
    entity = ConfigEntity.parse(entity_path)
    if entity is None:
        fields.raise_corrupt(f"invalid entity path {entity_path!r}")
    return entity


_KNOWN_FIELDS = frozenset(("version", "entity_type", "entity_name", "entity_path"))
