"""Reads the configurations of topics, brokers, users, clients and addresses from the store."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from odradek.controller.store.base import (
    GetChildren,
    GetData,
    MetadataStore,
    NoNode,
    Operation,
    Outcome,
    StoreError,
    ZNode,
)
from odradek.controller.store.paths import ConfigEntity, EntityType
from odradek.controller.store.payloads.config import EntityConfig
from odradek.controller.store.payloads.json_object import CorruptPayload

log = logging.getLogger("kafka.server")

ConfigMap = Mapping[str, str]


async def read_all_configs(store: MetadataStore) -> dict[ConfigEntity, ConfigMap]:
    """Read all configurations.  Those that cannot be decoded are logged and omitted."""
    type_paths = [entity_type.path for entity_type in EntityType]
    names = zip(EntityType, await _run(store, map(GetChildren, type_paths)), strict=True)
    entities = [
        ConfigEntity(entity_type, node)
        for entity_type, nodes in names
        if isinstance(nodes, list)
        for node in nodes
    ]
    users = [entity for entity in entities if entity.entity_type is EntityType.USER]
    clients = await _run(store, [GetChildren(f"{user.path}/clients") for user in users])
    entities += [
        ConfigEntity(user.entity_type, user.sanitized_name, sanitized_client_id=node)
        for user, nodes in zip(users, clients, strict=True)
        if isinstance(nodes, list)
        for node in nodes
    ]
    configs = await read_configs(store, entities)
    return {entity: config for entity, config in configs.items() if config}


async def read_configs(
    store: MetadataStore, entities: Sequence[ConfigEntity]
) -> dict[ConfigEntity, ConfigMap]:
    """Read these configurations; missing or undecodable ones are empty."""
    nodes = await _run(store, [GetData(entity.path) for entity in entities])
    return {
        entity: _decode_config(entity, node) for entity, node in zip(entities, nodes, strict=True)
    }


async def read_config(store: MetadataStore, entity: ConfigEntity) -> ConfigMap:
    return (await read_configs(store, [entity]))[entity]


async def _run(store: MetadataStore, operations: Iterable[Operation]) -> list[Outcome]:
    outcomes = await store.run([*operations])
    for outcome in outcomes:
        if isinstance(outcome, StoreError) and not isinstance(outcome, NoNode):
            raise outcome
    return outcomes


def _decode_config(entity: ConfigEntity, node: Outcome) -> ConfigMap:
    if not isinstance(node, ZNode):
        return {}
    try:
        return EntityConfig.decode(node.value, entity.path).config
    except CorruptPayload as error:
        log.error("Ignoring corrupt configuration: %s", error)
        return {}
