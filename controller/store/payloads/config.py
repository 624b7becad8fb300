"""What differs from the defaults for a topic, client, user, broker or address, and that it changed.

/config/TYPE/NAME

    {"version":1,"config":{"retention.ms":"1000"}}

    A node that was made only to hold others (a user's, for the user's clients) has no value.

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
from odradek.controller.store.payloads.fields import Fields, write_json
from odradek.controller.store.payloads.key_order import like_properties


@dataclass(frozen=True, slots=True)
class EntityConfig:
    """Some values are secrets: passwords of brokers, credentials of users."""

    config: Mapping[str, str] = field(repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def encode(self) -> bytes:
        return write_json({"version": 1, "config": like_properties(self.config)}, self.extra)

    @classmethod
    def decode(cls, value: bytes, node: str = "a configuration") -> EntityConfig:
        if not value:
            return cls({})
        fields = Fields.parse(value, node)
        return cls(fields.text_map("config"), fields.beyond({"version", "config"}))


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """Says only whose configuration to read again."""

    entity: ConfigEntity
    extra: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        return write_json({"version": 2, "entity_path": str(self.entity)}, self.extra)

    @classmethod
    def decode(cls, value: bytes, node: str = "a change of a configuration") -> ConfigChange:
        fields = Fields.parse(value, node)
        version = fields.int32("version")
        if version not in (1, 2):
            fields.refuse(f"version {version} is unknown")
        entity = _entity_in_v1(fields) if version == 1 else _entity_in_v2(fields)
        return cls(entity, fields.beyond(_KNOWN))


def _entity_in_v1(fields: Fields) -> ConfigEntity:
    entity = _entity(f"{fields.text('entity_type')}/{fields.text('entity_name')}", fields)
    if entity.kind not in (EntityType.TOPIC, EntityType.CLIENT):
        fields.refuse(f"version 1 knows no {entity.kind.value}")
    return entity


def _entity_in_v2(fields: Fields) -> ConfigEntity:
    return _entity(fields.text("entity_path"), fields)


def _entity(entity_path: str, fields: Fields) -> ConfigEntity:
    entity = ConfigEntity.parse(entity_path)
    if entity is None:
        fields.refuse(f"not of an entity: {entity_path!r}")
    return entity


_KNOWN = frozenset(("version", "entity_type", "entity_name", "entity_path"))
