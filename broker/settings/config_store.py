"""What is configured in the store: of topics, brokers, users, clients and addresses."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from odradek.controller.store.base import (
    Children,
    Get,
    MetadataStore,
    Node,
    NoNode,
    Operation,
    Outcome,
    StoreError,
)
from odradek.controller.store.paths import ConfigEntity, EntityType
from odradek.controller.store.payloads.config import EntityConfig
from odradek.controller.store.payloads.fields import PayloadDamaged

log = logging.getLogger(__name__)

Texts = Mapping[str, str]


async def stored_configs(store: MetadataStore) -> dict[ConfigEntity, Texts]:
    """Everything that is configured; what cannot be read is logged and left out."""
    kinds = [kind.path for kind in EntityType]
    names = zip(EntityType, await _run(store, map(Children, kinds)), strict=True)
    entities = [
        ConfigEntity(kind, node)
        for kind, nodes in names
        if isinstance(nodes, list)
        for node in nodes
    ]
    users = [entity for entity in entities if entity.kind is EntityType.USER]
    clients = await _run(store, [Children(f"{user.path}/clients") for user in users])
    entities += [
        ConfigEntity(user.kind, user.node, client_node=node)
        for user, nodes in zip(users, clients, strict=True)
        if isinstance(nodes, list)
        for node in nodes
    ]
    found = await configs_of(store, entities)
    return {entity: config for entity, config in found.items() if config}


async def configs_of(
    store: MetadataStore, entities: Sequence[ConfigEntity]
) -> dict[ConfigEntity, Texts]:
    """Nothing, where there is none or it cannot be read."""
    nodes = await _run(store, [Get(entity.path) for entity in entities])
    return {entity: _config(entity, node) for entity, node in zip(entities, nodes, strict=True)}


async def stored_config(store: MetadataStore, entity: ConfigEntity) -> Texts:
    return (await configs_of(store, [entity]))[entity]


async def _run(store: MetadataStore, operations: Iterable[Operation]) -> list[Outcome]:
    outcomes = await store.run([*operations])
    for outcome in outcomes:
        if isinstance(outcome, StoreError) and not isinstance(outcome, NoNode):
            raise outcome
    return outcomes


def _config(entity: ConfigEntity, node: Outcome) -> Texts:
    if not isinstance(node, Node):
        return {}
    try:
        return EntityConfig.decode(node.value, entity.path).config
    except PayloadDamaged as damage:
        log.error("A configuration has no effect: %s", damage)
        return {}
