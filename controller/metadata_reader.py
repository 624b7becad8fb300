"""Reads of the controller from the metadata store.  Kafka: KafkaZkClient.

Each method is one pipelined read of the store, or two if it must list names first, however many
brokers, topics or partitions it reads.  Missing nodes are left out of the result.  Unreadable nodes
are left out as well and logged: one corrupt node must not prevent the controller from managing all
others.

A watch is set by the read that it belongs to, and fires once; see store/base.py.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from odradek.controller.controller_context import Broker
from odradek.controller.leader_and_isr import LeaderIsrAndControllerEpoch
from odradek.controller.store import paths
from odradek.controller.store.base import (
    Exists,
    GetData,
    MetadataStore,
    NoNode,
    Operation,
    Outcome,
    StoreError,
    Watch,
    ZNode,
)
from odradek.controller.store.payloads.admin import PreferredReplicaElection, ReassignPartitions
from odradek.controller.store.payloads.broker import BrokerRegistration
from odradek.controller.store.payloads.cluster import FinalizedFeatures, ProducerIdsBlock
from odradek.controller.store.payloads.config import EntityConfig
from odradek.controller.store.payloads.json_object import CorruptPayload
from odradek.controller.store.payloads.notifications import IsrChange, LogDirEvent
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.protocol.types import TopicPartition

log = logging.getLogger("kafka.controller")

Payload = TypeVar("Payload")
Key = TypeVar("Key")


class LatestProducerIdsBlock(NamedTuple):
    """The last allocated block, None before the first, and the version for the next claim."""

    block: ProducerIdsBlock | None
    version: int


class MetadataReader:
    """Typed reads of the metadata store."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        #: path -> fields that this version does not know; the next write of the node keeps them.
        self.extras: dict[str, Mapping[str, Any]] = {}

    # Brokers

    async def get_broker_ids(self, watch: Watch | None = None) -> set[int]:
        names = await self._store.get_children(paths.BROKER_IDS, watch)
        return {
            broker_id for name in names if (broker_id := paths.parse_broker_id(name)) is not None
        }

    async def get_brokers(
        self, broker_ids: Iterable[int], watch: Watch | None = None
    ) -> dict[int, Broker]:
        """Return the registered brokers; the watch fires when a registration changes or ends."""
        by_path = {broker_id: paths.broker(broker_id) for broker_id in broker_ids}
        return {
            broker_id: Broker(broker_id, node.stat.created_zxid, registration)
            for broker_id, node in (await self._get_nodes(by_path, watch)).items()
            if (
                registration := _decode_or_none(BrokerRegistration.decode, node, by_path[broker_id])
            )
        }

    # Topics

    async def get_topic_names(self, watch: Watch | None = None) -> set[str]:
        return set(await self._store.get_children(paths.TOPICS, watch))

    async def get_topic_assignments(
        self, names: Iterable[str], watch: Watch | None = None
    ) -> dict[str, TopicAssignment]:
        by_path = {name: paths.topic(name) for name in names}
        topics = {}
        for name, node in (await self._get_nodes(by_path, watch)).items():
            payload = _decode_or_none(TopicAssignment.decode, node, by_path[name])
            if payload is not None:
                self._remember_extra(by_path[name], payload.extra)
                topics[name] = payload
        return topics

    async def has_partition(self, partition: TopicPartition) -> bool:
        """Raises CorruptPayload, because the topic may have the partition."""
        path = paths.topic(partition.topic)
        node = await self._get_node(path, None)
        if node is None:
            return False
        return partition.partition in TopicAssignment.decode(node.value, path).partitions

    async def partition_count(self, topic: str) -> int:
        """Count all partitions, with or without leader; 0 if the topic does not exist.

        Raises CorruptPayload.
        """
        path = paths.topic(topic)
        node = await self._get_node(path, None)
        return 0 if node is None else len(TopicAssignment.decode(node.value, path).partitions)

    async def get_topic_partition_states(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, LeaderIsrAndControllerEpoch]:
        by_path = {partition: paths.partition_state(partition) for partition in partitions}
        partition_states = {}
        for partition, node in (await self._get_nodes(by_path)).items():
            payload = _decode_or_none(LeaderAndIsr.decode, node, by_path[partition])
            if payload is not None:
                self._remember_extra(by_path[partition], payload.extra)
                partition_states[partition] = _leader_isr_and_controller_epoch(
                    payload, node.stat.version
                )
        return partition_states

    async def get_topic_deletions(self, watch: Watch | None = None) -> set[str]:
        return set(await self._store.get_children(paths.DELETE_TOPICS, watch))

    # Configurations

    async def get_entity_configs(
        self, entities: Iterable[paths.ConfigEntity]
    ) -> dict[paths.ConfigEntity, Mapping[str, str]]:
        """Only entities whose node exists are in the result."""
        by_path = {entity: entity.path for entity in entities}
        configs = {}
        for entity, node in (await self._get_nodes(by_path)).items():
            payload = _decode_or_none(EntityConfig.decode, node, entity.path)
            if payload is not None:
                self._remember_extra(entity.path, payload.extra)
                configs[entity] = payload.config
        return configs

    async def get_topic_configs(self, topics: Iterable[str]) -> dict[str, Mapping[str, str]]:
        configs = await self.get_entity_configs(map(paths.topic_config, topics))
        return {entity.sanitized_name: config for entity, config in configs.items()}

    # Requests that tools write to the store

    async def get_partition_reassignment(
        self, watch: Watch | None = None
    ) -> Mapping[TopicPartition, tuple[int, ...]] | None:
        """None if there is no request; the watch also fires when one is created or deleted."""
        node = await self._get_node(paths.REASSIGN_PARTITIONS, watch)
        if node is None:
            return None
        payload = _decode_or_none(ReassignPartitions.decode, node, paths.REASSIGN_PARTITIONS)
        return {} if payload is None else payload.replicas

    async def get_preferred_replica_election(
        self, watch: Watch | None = None
    ) -> tuple[TopicPartition, ...] | None:
        """None if there is no request; the watch also fires when one is created or deleted."""
        node = await self._get_node(paths.PREFERRED_REPLICA_ELECTION, watch)
        if node is None:
            return None
        payload = _decode_or_none(
            PreferredReplicaElection.decode, node, paths.PREFERRED_REPLICA_ELECTION
        )
        return () if payload is None else payload.partitions

    # Notifications, oldest first.  An unreadable one is listed by name, without content.

    async def get_isr_change_notifications(
        self, watch: Watch | None = None
    ) -> dict[str, tuple[TopicPartition, ...]]:
        nodes = await self.get_notifications(paths.ISR_CHANGES, watch)
        changes = {
            name: _decode_or_none(IsrChange.decode, node, name) for name, node in nodes.items()
        }
        return {name: change.partitions if change else () for name, change in changes.items()}

    async def get_log_dir_event_notifications(
        self, watch: Watch | None = None
    ) -> dict[str, int | None]:
        """Notification name -> id of the broker whose log directory failed."""
        nodes = await self.get_notifications(paths.LOG_DIR_EVENTS, watch)
        events = {
            name: _decode_or_none(LogDirEvent.decode, node, name) for name, node in nodes.items()
        }
        return {name: event.broker_id if event else None for name, event in events.items()}

    async def get_notifications(
        self, sequence: paths.NodeSequence, watch: Watch | None = None
    ) -> dict[str, ZNode]:
        names = sequence.sort_children(await self._store.get_children(sequence.parent, watch))
        return await self._get_nodes({name: sequence.child_path(name) for name in names})

    # Cluster-wide nodes

    async def get_finalized_features(self) -> FinalizedFeatures | None:
        """None before the first controller; raises CorruptPayload."""
        node = await self._get_node(paths.FEATURE, None)
        return None if node is None else FinalizedFeatures.decode(node.value, paths.FEATURE)

    async def get_latest_producer_id_block(self) -> LatestProducerIdsBlock:
        """Raises CorruptPayload, because a guess could allocate producer ids twice."""
        value, stat = await self._store.get(paths.PRODUCER_ID_BLOCK)
        block = ProducerIdsBlock.decode(value, paths.PRODUCER_ID_BLOCK) if value else None
        return LatestProducerIdsBlock(block, stat.version)

    async def _get_node(self, path: str, watch: Watch | None) -> ZNode | None:
        operations: Sequence[Operation] = [Exists(path, watch), GetData(path)]
        exists, outcome = await self._store.run(operations)
        if isinstance(exists, StoreError):
            raise exists
        return _node_or_none(outcome)

    async def _get_nodes(
        self, paths_by_key: Mapping[Key, str], watch: Watch | None = None
    ) -> dict[Key, ZNode]:
        if not paths_by_key:
            return {}
        outcomes = await self._store.run([GetData(path, watch) for path in paths_by_key.values()])
        nodes = zip(paths_by_key, map(_node_or_none, outcomes), strict=True)
        return {key: node for key, node in nodes if node is not None}

    def _remember_extra(self, path: str, extra: Mapping[str, Any]) -> None:
        if extra:
            self.extras[path] = extra
        else:
            self.extras.pop(path, None)


def _node_or_none(outcome: Outcome) -> ZNode | None:
    if isinstance(outcome, NoNode):
        return None
    if isinstance(outcome, StoreError):
        raise outcome
    assert isinstance(outcome, ZNode), outcome
    return outcome


def _decode_or_none(
    decode: Callable[[bytes, str], Payload], node: ZNode, path: str
) -> Payload | None:
    try:
        return decode(node.value, path)
    except CorruptPayload as error:
        log.error("Skipping an unreadable node of the metadata store: %s", error)
        return None


def _leader_isr_and_controller_epoch(
    payload: LeaderAndIsr, version: int
) -> LeaderIsrAndControllerEpoch:
    return LeaderIsrAndControllerEpoch(
        leader=payload.leader,
        leader_epoch=payload.leader_epoch,
        isr=payload.isr,
        controller_epoch=payload.controller_epoch,
        partition_epoch=version,
        is_recovering=payload.is_recovering,
    )
