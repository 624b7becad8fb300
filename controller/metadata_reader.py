"""What the tree says, in the controller's own words.

Each question is one pipelined read of the store, or two where names must be known first, however
many brokers, topics or partitions are asked for.  What is not there is left out of the answer.  So
is what cannot be read, with a line in the log: one damaged node must not keep a controller from
looking after all others.

A watch is asked for with the question it belongs to and called once; see store/base.py.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from odradek.controller.context import Broker
from odradek.controller.leadership import Leadership
from odradek.controller.store import paths
from odradek.controller.store.base import (
    Exists,
    Get,
    MetadataStore,
    Node,
    NoNode,
    Operation,
    Outcome,
    StoreError,
    Watch,
)
from odradek.controller.store.payloads.admin import PreferredReplicaElection, ReassignPartitions
from odradek.controller.store.payloads.broker import BrokerRegistration
from odradek.controller.store.payloads.cluster import FinalizedFeatures, ProducerIdBlock
from odradek.controller.store.payloads.config import EntityConfig
from odradek.controller.store.payloads.fields import PayloadDamaged
from odradek.controller.store.payloads.notifications import IsrChange, LogDirEvent
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)

Payload = TypeVar("Payload")
Key = TypeVar("Key")


class LatestProducerIds(NamedTuple):
    """The block that was given away last, None before the first, and the version to claim with."""

    block: ProducerIdBlock | None
    version: int


class MetadataReads:
    """Questions to the tree."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        #: Fields that this version does not know, by path, so that they can be written again.
        self.extras: dict[str, Mapping[str, Any]] = {}

    # Brokers

    async def broker_ids(self, watch: Watch | None = None) -> set[int]:
        names = await self._store.children(paths.BROKER_IDS, watch)
        return {number for name in names if (number := paths.broker_id(name)) is not None}

    async def brokers(self, ids: Iterable[int], watch: Watch | None = None) -> dict[int, Broker]:
        """Those of them that are registered; the watch is for each registration and its end."""
        by_path = {number: paths.broker(number) for number in ids}
        return {
            number: Broker(number, node.stat.created_zxid, registration)
            for number, node in (await self._nodes(by_path, watch)).items()
            if (registration := _read(BrokerRegistration.decode, node, by_path[number]))
        }

    # Topics

    async def topic_names(self, watch: Watch | None = None) -> set[str]:
        return set(await self._store.children(paths.TOPICS, watch))

    async def topics(
        self, names: Iterable[str], watch: Watch | None = None
    ) -> dict[str, TopicAssignment]:
        by_path = {name: paths.topic(name) for name in names}
        topics = {}
        for name, node in (await self._nodes(by_path, watch)).items():
            payload = _read(TopicAssignment.decode, node, by_path[name])
            if payload is not None:
                self._note_extra(by_path[name], payload.extra)
                topics[name] = payload
        return topics

    async def has_partition(self, partition: TopicPartition) -> bool:
        """Raises PayloadDamaged: the topic may have it."""
        path = paths.topic(partition.topic)
        node = await self._node(path, None)
        if node is None:
            return False
        return partition.partition in TopicAssignment.decode(node.value, path).partitions

    async def partition_count(self, topic: str) -> int:
        """Of all, whether they are led or not; 0 if it is not there.  Raises PayloadDamaged."""
        path = paths.topic(topic)
        node = await self._node(path, None)
        return 0 if node is None else len(TopicAssignment.decode(node.value, path).partitions)

    async def leaderships(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Leadership]:
        by_path = {partition: paths.partition_state(partition) for partition in partitions}
        leaderships = {}
        for partition, node in (await self._nodes(by_path)).items():
            payload = _read(LeaderAndIsr.decode, node, by_path[partition])
            if payload is not None:
                self._note_extra(by_path[partition], payload.extra)
                leaderships[partition] = _leadership(payload, node.stat.version)
        return leaderships

    async def topics_to_delete(self, watch: Watch | None = None) -> set[str]:
        return set(await self._store.children(paths.DELETE_TOPICS, watch))

    # Configurations

    async def configs(
        self, entities: Iterable[paths.ConfigEntity]
    ) -> dict[paths.ConfigEntity, Mapping[str, str]]:
        """Of those that differ from the defaults in something."""
        by_path = {entity: entity.path for entity in entities}
        configs = {}
        for entity, node in (await self._nodes(by_path)).items():
            payload = _read(EntityConfig.decode, node, entity.path)
            if payload is not None:
                self._note_extra(entity.path, payload.extra)
                configs[entity] = payload.config
        return configs

    async def topic_configs(self, topics: Iterable[str]) -> dict[str, Mapping[str, str]]:
        configs = await self.configs(map(paths.topic_config, topics))
        return {entity.node: config for entity, config in configs.items()}

    # What tools ask for

    async def reassignments(
        self, watch: Watch | None = None
    ) -> Mapping[TopicPartition, tuple[int, ...]] | None:
        """None if nothing is asked; the watch is for the beginning and the end of it, too."""
        node = await self._node(paths.REASSIGN_PARTITIONS, watch)
        if node is None:
            return None
        payload = _read(ReassignPartitions.decode, node, paths.REASSIGN_PARTITIONS)
        return {} if payload is None else payload.replicas

    async def preferred_elections(
        self, watch: Watch | None = None
    ) -> tuple[TopicPartition, ...] | None:
        """None if nothing is asked; the watch is for the beginning and the end of it, too."""
        node = await self._node(paths.PREFERRED_REPLICA_ELECTION, watch)
        if node is None:
            return None
        payload = _read(PreferredReplicaElection.decode, node, paths.PREFERRED_REPLICA_ELECTION)
        return () if payload is None else payload.partitions

    # Notifications: by name, the oldest first; what cannot be read says nothing, but has a name

    async def isr_changes(
        self, watch: Watch | None = None
    ) -> dict[str, tuple[TopicPartition, ...]]:
        nodes = await self.notifications(paths.ISR_CHANGES, watch)
        changes = {name: _read(IsrChange.decode, node, name) for name, node in nodes.items()}
        return {name: change.partitions if change else () for name, change in changes.items()}

    async def log_dir_events(self, watch: Watch | None = None) -> dict[str, int | None]:
        """Whose log directories have failed."""
        nodes = await self.notifications(paths.LOG_DIR_EVENTS, watch)
        events = {name: _read(LogDirEvent.decode, node, name) for name, node in nodes.items()}
        return {name: event.broker_id if event else None for name, event in events.items()}

    async def notifications(
        self, sequence: paths.NodeSequence, watch: Watch | None = None
    ) -> dict[str, Node]:
        names = sequence.in_order(await self._store.children(sequence.parent, watch))
        return await self._nodes({name: sequence.child(name) for name in names})

    # What a cluster has one of

    async def features(self) -> FinalizedFeatures | None:
        """None before the first controller; raises PayloadDamaged."""
        node = await self._node(paths.FEATURE, None)
        return None if node is None else FinalizedFeatures.decode(node.value, paths.FEATURE)

    async def latest_producer_ids(self) -> LatestProducerIds:
        """Raises PayloadDamaged: whoever guesses here would give ids away twice."""
        value, stat = await self._store.get(paths.PRODUCER_ID_BLOCK)
        block = ProducerIdBlock.decode(value, paths.PRODUCER_ID_BLOCK) if value else None
        return LatestProducerIds(block, stat.version)

    async def _node(self, path: str, watch: Watch | None) -> Node | None:
        operations: Sequence[Operation] = [Exists(path, watch), Get(path)]
        exists, outcome = await self._store.run(operations)
        if isinstance(exists, StoreError):
            raise exists
        return _found(outcome)

    async def _nodes(
        self, by_path: Mapping[Key, str], watch: Watch | None = None
    ) -> dict[Key, Node]:
        if not by_path:
            return {}
        outcomes = await self._store.run([Get(path, watch) for path in by_path.values()])
        found = zip(by_path, map(_found, outcomes), strict=True)
        return {key: node for key, node in found if node is not None}

    def _note_extra(self, path: str, extra: Mapping[str, Any]) -> None:
        if extra:
            self.extras[path] = extra
        else:
            self.extras.pop(path, None)


def _found(outcome: Outcome) -> Node | None:
    if isinstance(outcome, NoNode):
        return None
    if isinstance(outcome, StoreError):
        raise outcome
    assert isinstance(outcome, Node), outcome
    return outcome


def _read(decode: Callable[[bytes, str], Payload], node: Node, name: str) -> Payload | None:
    try:
        return decode(node.value, name)
    except PayloadDamaged as damage:
        log.error("A node of the metadata store cannot be read and is passed over: %s", damage)
        return None


def _leadership(payload: LeaderAndIsr, version: int) -> Leadership:
    return Leadership(
        leader=payload.leader,
        leader_epoch=payload.leader_epoch,
        isr=payload.isr,
        controller_epoch=payload.controller_epoch,
        partition_epoch=version,
        is_recovering=payload.is_recovering,
    )
