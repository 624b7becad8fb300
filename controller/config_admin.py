"""Changes configurations on request: of topics, brokers, clients, users, IPs and groups.

Kafka: ZkConfigRepository, AdminZkClient.changeConfigs and ZkAdminManager.

A change reads the configuration, computes the new one and writes it conditionally on the version
that was read.  After a concurrent change it starts again.  One transaction writes the configuration
and the notification that makes all brokers read it again; a crash leaves both or none.  As with
topics, any tool could make these writes.

A topic or a broker without configured settings keeps its node.  For a client, user, IP or group the
node is deleted, together with parent nodes that exist only to hold it, because such nodes would
accumulate without limit.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from odradek.config.settings import Settings
from odradek.controller.config_alterations import (
    AlterableConfig,
    Config,
    IncrementalAlterableConfig,
    encode_config,
    prepare_full_config,
    prepare_incremental_config,
    validate_topic_config,
)
from odradek.controller.store import paths
from odradek.controller.store.base import (
    BadVersion,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    MetadataStore,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Outcome,
    SetData,
    StoreError,
    Write,
    ZNode,
)
from odradek.controller.store.payloads.config import ConfigChangeNotification, EntityConfig
from odradek.controller.store.payloads.json_object import CorruptPayload
from odradek.controller.topic_names import is_valid_topic_name
from odradek.protocol.errors import InvalidRequest, UnknownTopicOrPartition
from odradek.storage.settings import TopicSettings

log = logging.getLogger("kafka.server")

#: Computes the new configuration from the current one; raises a KafkaError to reject the change.
ConfigUpdate = Callable[[Config], Config]

_DELETED_WHEN_EMPTY = frozenset(
    {
        paths.EntityType.CLIENT,
        paths.EntityType.USER,
        paths.EntityType.IP,
        paths.EntityType.GROUP,
    }
)


class ConfigAdmin:
    def __init__(
        self, store: MetadataStore, *, server_settings: Callable[[], Sequence[Settings]]
    ) -> None:
        """``server_settings`` returns the tables that provide the defaults of topic settings."""
        self._store = store
        self._server_settings = server_settings

    async def incremental_alter_topic_config(
        self,
        topic: str,
        changes: Sequence[IncrementalAlterableConfig],
        *,
        validate_only: bool = False,
    ) -> None:
        """Apply IncrementalAlterConfigs to a topic; raises a KafkaError."""

        def prepare(config: Config) -> Config:
            return prepare_incremental_config(config, changes, TopicSettings.by_name)

        await self._update_topic_config(topic, prepare, validate_only=validate_only)

    async def alter_topic_config(
        self, topic: str, configs: Sequence[AlterableConfig], *, validate_only: bool = False
    ) -> None:
        """Apply AlterConfigs to a topic; raises a KafkaError."""
        await self._update_topic_config(
            topic, lambda _: prepare_full_config(configs), validate_only=validate_only
        )

    async def update_entity_config(
        self, entity: paths.ConfigEntity, update: ConfigUpdate, *, validate_only: bool = False
    ) -> None:
        """Apply ``update``, again with the new configuration after each concurrent change."""
        while True:
            entity_nodes = await self._read_entity(entity)
            config = update(entity_nodes.config)
            if validate_only:
                return
            notification = ConfigChangeNotification(entity).encode()
            create_notification = Create(
                paths.CONFIG_CHANGES.create_path, notification, is_sequential=True
            )
            try:
                await self._store.multi(
                    [*entity_nodes.update_operations(config), create_notification]
                )
            except MultiFailed as error:
                if not isinstance(error.cause, BadVersion | NodeExists | NoNode | NotEmpty):
                    raise error.cause from error
                log.info("Configuration of %s was changed concurrently; retrying", entity)
                continue
            names = ", ".join(sorted(config)) or "none"
            log.info("Changed the configuration of %s; configured settings: %s", entity, names)
            return

    async def _update_topic_config(
        self, topic: str, update: ConfigUpdate, *, validate_only: bool
    ) -> None:
        if not topic:
            raise InvalidRequest("Default topic resources are not allowed: name a topic.")
        exists = await self._topic_exists(topic)

        def prepare_and_validate(config: Config) -> Config:
            new_config = update(config)
            if not exists:
                raise UnknownTopicOrPartition(f"Topic '{topic}' does not exist.")
            validate_topic_config(new_config, server_settings=self._server_settings())
            return new_config

        if exists:
            await self.update_entity_config(
                paths.topic_config(topic), prepare_and_validate, validate_only=validate_only
            )
        else:
            prepare_and_validate({})

    async def _topic_exists(self, topic: str) -> bool:
        """A topic that is marked for deletion counts as deleted."""
        if not is_valid_topic_name(topic):
            return False
        topic_stat, deletion_stat = await self._run(
            [Exists(paths.topic(topic)), Exists(paths.topic_to_delete(topic))]
        )
        return topic_stat is not None and deletion_stat is None

    async def _read_entity(self, entity: paths.ConfigEntity) -> _EntityNodes:
        node_paths = (*_parent_paths(entity), entity.path)
        outcomes = await self._run([*map(GetData, node_paths), *map(GetChildren, node_paths)])
        nodes = [
            _ConfigNode(
                path,
                node,
                _decode_config(path, node),
                len(children) if isinstance(children, list) else 0,
            )
            for path, node, children in zip(
                node_paths, outcomes[: len(node_paths)], outcomes[len(node_paths) :], strict=True
            )
            if node is None or isinstance(node, ZNode)
        ]
        return _EntityNodes(entity, nodes[-1], nodes[:-1])

    async def _run(self, operations: Sequence[Operation]) -> list[Outcome]:
        """Run the operations; the outcome for a missing node is None."""
        outcomes = await self._store.run(operations)
        for outcome in outcomes:
            if isinstance(outcome, StoreError) and not isinstance(outcome, NoNode):
                raise outcome
        return [None if isinstance(outcome, NoNode) else outcome for outcome in outcomes]


@dataclass(frozen=True, slots=True)
class _ConfigNode:
    """A node as it was read; ``node`` is None if it does not exist."""

    path: str
    node: ZNode | None
    entity_config: EntityConfig
    children_count: int


def _decode_config(path: str, node: ZNode | None) -> EntityConfig:
    """An unreadable configuration counts as empty, as in Kafka; the next write replaces it."""
    try:
        return EntityConfig.decode(b"" if node is None else node.value, path)
    except CorruptPayload as error:
        log.error("Treating an unreadable configuration as empty: %s", error)
        return EntityConfig({})


@dataclass(frozen=True, slots=True)
class _EntityNodes:
    """The node of a configuration, and the parent nodes that exist only to hold it."""

    entity: paths.ConfigEntity
    entity_node: _ConfigNode
    parent_nodes: Sequence[_ConfigNode]

    @property
    def config(self) -> Config:
        return self.entity_node.entity_config.config

    def update_operations(self, config: Config) -> list[Write]:
        """The writes fail if a node changed since it was read."""
        if (
            not config
            and self.entity.entity_type in _DELETED_WHEN_EMPTY
            and not self.entity_node.children_count
        ):
            return self._delete_operations()
        value = encode_config(EntityConfig(config, self.entity_node.entity_config.extra))
        if self.entity_node.node is not None:
            return [SetData(self.entity_node.path, value, self.entity_node.node.stat.version)]
        missing_parents = [
            Create(parent.path) for parent in self.parent_nodes if parent.node is None
        ]
        return [*missing_parents, Create(self.entity_node.path, value)]

    def _delete_operations(self) -> list[Write]:
        operations: list[Write] = []
        if self.entity_node.node is not None:
            operations.append(Delete(self.entity_node.path, self.entity_node.node.stat.version))
            for parent in reversed(self.parent_nodes):
                if parent.node is None or parent.children_count > 1 or parent.entity_config.config:
                    break
                operations.append(Delete(parent.path, parent.node.stat.version))
        return operations


def _parent_paths(entity: paths.ConfigEntity) -> tuple[str, ...]:
    """The parents below the root of the entity type.

    These roots always exist, except the root of groups, which is therefore included.
    """
    if entity.entity_type is paths.EntityType.GROUP:
        return (entity.entity_type.path,)
    if entity.sanitized_client_id is None:
        return ()
    user = paths.ConfigEntity(entity.entity_type, entity.sanitized_name)
    return (user.path, entity.path.rpartition("/")[0])
