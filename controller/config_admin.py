"""Configurations changed on request: of topics, brokers, clients, users, addresses and groups.

A change is read, decided and written for the version that was read; if somebody was faster, it is
decided again.  The notice that makes all brokers read it again is written as one with the change,
so that a crash leaves both or none.  As with topics, these writes are what any tool could write.

A topic or a broker that has nothing configured any more keeps its node.  A client, user, address or
group loses it, with the nodes above that were made only to hold it, or nodes would gather for ever.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from odradek.config.settings import Settings
from odradek.controller.config_alterations import (
    Config,
    ConfigChange,
    ConfigText,
    altered,
    checked_topic_config,
    encoded_config,
    replaced,
)
from odradek.controller.store import paths
from odradek.controller.store.base import (
    BadVersion,
    Children,
    Create,
    Delete,
    Exists,
    Get,
    MetadataStore,
    MultiFailed,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Outcome,
    Set,
    StoreError,
    Write,
)
from odradek.controller.store.payloads.config import ConfigChange as ConfigNotice
from odradek.controller.store.payloads.config import EntityConfig
from odradek.controller.store.payloads.fields import PayloadDamaged
from odradek.controller.topic_names import is_topic_name
from odradek.protocol.errors import InvalidRequest, UnknownTopicOrPartition
from odradek.storage.settings import TopicSettings

log = logging.getLogger(__name__)

#: From what is configured to what shall be; raises a KafkaError if that cannot be.
Decision = Callable[[Config], Config]

_GO_WHEN_EMPTY = frozenset(
    {
        paths.EntityType.CLIENT,
        paths.EntityType.USER,
        paths.EntityType.IP,
        paths.EntityType.GROUP,
    }
)


class ConfigAdmin:
    def __init__(self, store: MetadataStore, *, server: Callable[[], Sequence[Settings]]) -> None:
        """``server`` gives the tables that a topic's settings stand on."""
        self._store = store
        self._server = server

    async def alter_topic(
        self, topic: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> None:
        """What IncrementalAlterConfigs asks of a topic; raises a KafkaError."""

        def decide(config: Config) -> Config:
            return altered(config, changes, TopicSettings.by_name)

        await self._decide_for_topic(topic, decide, validate_only=validate_only)

    async def replace_topic(
        self, topic: str, texts: Sequence[ConfigText], *, validate_only: bool = False
    ) -> None:
        """What AlterConfigs asks of a topic; raises a KafkaError."""
        await self._decide_for_topic(topic, lambda _: replaced(texts), validate_only=validate_only)

    async def alter(
        self, entity: paths.ConfigEntity, decide: Decision, *, validate_only: bool = False
    ) -> None:
        """``decide`` may be asked again, about what somebody else has written meanwhile."""
        while True:
            found = await self._found(entity)
            config = decide(found.config)
            if validate_only:
                return
            notice = ConfigNotice(entity).encode()
            notify = Create(paths.CONFIG_CHANGES.new, notice, is_sequential=True)
            try:
                await self._store.multi([*found.writes(config), notify])
            except MultiFailed as failure:
                if not isinstance(failure.cause, BadVersion | NodeExists | NoNode | NotEmpty):
                    raise failure.cause from failure
                log.info("The configuration of %s has changed meanwhile", entity)
                continue
            names = ", ".join(sorted(config)) or "nothing"
            log.info("The configuration of %s was changed; it has %s now", entity, names)
            return

    async def _decide_for_topic(self, topic: str, change: Decision, *, validate_only: bool) -> None:
        if not topic:
            raise InvalidRequest("Topics have no configuration in common: name one.")
        exists = await self._exists(topic)

        def decide(config: Config) -> Config:
            after = change(config)
            if not exists:
                raise UnknownTopicOrPartition(f"Topic '{topic}' does not exist.")
            checked_topic_config(after, server=self._server())
            return after

        if exists:
            await self.alter(paths.topic_config(topic), decide, validate_only=validate_only)
        else:
            decide({})

    async def _exists(self, topic: str) -> bool:
        """One that is being deleted does not exist any more for whoever would change it."""
        if not is_topic_name(topic):
            return False
        there, to_delete = await self._run(
            [Exists(paths.topic(topic)), Exists(paths.topic_to_delete(topic))]
        )
        return there is not None and to_delete is None

    async def _found(self, entity: paths.ConfigEntity) -> _Found:
        around = (*_parents(entity), entity.path)
        outcomes = await self._run([*map(Get, around), *map(Children, around)])
        places = [
            _Place(path, node, _content(path, node), len(below) if isinstance(below, list) else 0)
            for path, node, below in zip(
                around, outcomes[: len(around)], outcomes[len(around) :], strict=True
            )
            if node is None or isinstance(node, Node)
        ]
        return _Found(entity, places[-1], places[:-1])

    async def _run(self, operations: Sequence[Operation]) -> list[Outcome]:
        """What is not there is None."""
        outcomes = await self._store.run(operations)
        for outcome in outcomes:
            if isinstance(outcome, StoreError) and not isinstance(outcome, NoNode):
                raise outcome
        return [None if isinstance(outcome, NoNode) else outcome for outcome in outcomes]


@dataclass(frozen=True, slots=True)
class _Place:
    """A node as it was found, or the place for it."""

    path: str
    node: Node | None
    content: EntityConfig
    children_count: int


def _content(path: str, node: Node | None) -> EntityConfig:
    """Nothing if it cannot be read, as in Kafka: what is written next mends it."""
    try:
        return EntityConfig.decode(b"" if node is None else node.value, path)
    except PayloadDamaged as damage:
        log.error("What is configured counts as nothing: %s", damage)
        return EntityConfig({})


@dataclass(frozen=True, slots=True)
class _Found:
    """A configuration's node, and those above it that are there only for its sake."""

    entity: paths.ConfigEntity
    own: _Place
    above: Sequence[_Place]

    @property
    def config(self) -> Config:
        return self.own.content.config

    def writes(self, config: Config) -> list[Write]:
        """Each fails if the node is not as it was found."""
        if not config and self.entity.kind in _GO_WHEN_EMPTY and not self.own.children_count:
            return self._removal()
        value = encoded_config(EntityConfig(config, self.own.content.extra))
        if self.own.node is not None:
            return [Set(self.own.path, value, self.own.node.stat.version)]
        missing = [Create(place.path) for place in self.above if place.node is None]
        return [*missing, Create(self.own.path, value)]

    def _removal(self) -> list[Write]:
        removal: list[Write] = []
        if self.own.node is not None:
            removal.append(Delete(self.own.path, self.own.node.stat.version))
            for place in reversed(self.above):
                if place.node is None or place.children_count > 1 or place.content.config:
                    break
                removal.append(Delete(place.path, place.node.stat.version))
        return removal


def _parents(entity: paths.ConfigEntity) -> tuple[str, ...]:
    """Below the node of its kind, which is always there, but for that of groups."""
    if entity.kind is paths.EntityType.GROUP:
        return (entity.kind.path,)
    if entity.client_node is None:
        return ()
    user = paths.ConfigEntity(entity.kind, entity.node)
    return (user.path, entity.path.rpartition("/")[0])
