"""Writes of the controller to the metadata store, fenced by the controller epoch.

Kafka: KafkaZkClient, with its expected controller epoch zk version.

Every write is conditional on the version of /controller_epoch, which a new controller increments
before it does anything else.  A controller that was replaced, perhaps without noticing it, gets
ControllerMoved.  Only the event queue catches this exception; the controller then resigns.

Each change is one pipelined run of the store, however many partitions it contains, and every
partition or topic has its own outcome.  The store repeats a write whose response was lost, and the
repeated write may find itself applied.  So an existing node with exactly the intended value counts
as created.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from odradek.controller.controller_context import ControllerContext
from odradek.controller.leader_and_isr import LeaderIsrAndControllerEpoch
from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store import paths
from odradek.controller.store.base import (
    BadVersion,
    Check,
    Create,
    Delete,
    FenceCheckFailed,
    GetChildren,
    GetData,
    MetadataStore,
    NodeExists,
    NoNode,
    Operation,
    Outcome,
    SetData,
    Stat,
    StoreError,
    ZNode,
)
from odradek.controller.store.payloads.admin import ReassignPartitions
from odradek.controller.store.payloads.cluster import FinalizedFeatures, ProducerIdsBlock
from odradek.controller.store.payloads.config import ConfigChangeNotification, EntityConfig
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.protocol.types import TopicPartition

Key = TypeVar("Key")


class ControllerMoved(Exception):
    """Another broker is the controller; nothing was written."""


@dataclass(slots=True)
class UpdateLeaderAndIsrResult:
    """The result of a change of leader and ISR by partition."""

    #: The new state, with the epoch of this controller and the version of the znode.
    finished: dict[TopicPartition, LeaderIsrAndControllerEpoch] = field(default_factory=dict)
    #: Changed concurrently: the caller reads the state and decides again.
    to_retry: list[TopicPartition] = field(default_factory=list)
    failed: dict[TopicPartition, StoreError] = field(default_factory=dict)


class MetadataWriter:
    """Typed writes.  Methods that return a dictionary return the error of each failed key."""

    def __init__(
        self, store: MetadataStore, context: ControllerContext, reader: MetadataReader
    ) -> None:
        self._store = store
        self._context = context
        self._reader = reader

    # Leaders

    async def create_topic_partition_states(
        self, leader_and_isrs: Mapping[TopicPartition, LeaderIsrAndControllerEpoch]
    ) -> UpdateLeaderAndIsrResult:
        """Create the state nodes of new partitions, with their parent nodes."""
        intended = {
            partition: (
                paths.partition_state(partition),
                self._encode_partition_state(partition, leader_and_isr),
            )
            for partition, leader_and_isr in leader_and_isrs.items()
        }
        parents = dict.fromkeys(
            paths.topic_partitions(partition.topic) for partition in leader_and_isrs
        )
        parents |= dict.fromkeys(map(paths.partition, leader_and_isrs))
        creations = [Create(path, value) for path, value in intended.values()]
        outcomes = await self._run_fenced([*map(Create, parents), *creations])
        failures = _failures(intended, outcomes[len(parents) :])
        failed = await self._exclude_own_creations(intended, failures)
        finished = {
            partition: self._with_epoch_and_version(leader_and_isr, version=0)
            for partition, leader_and_isr in leader_and_isrs.items()
            if partition not in failed
        }
        return UpdateLeaderAndIsrResult(finished, failed=failed)

    async def update_leader_and_isr(
        self, leader_and_isrs: Mapping[TopicPartition, LeaderIsrAndControllerEpoch]
    ) -> UpdateLeaderAndIsrResult:
        """Write each state only if its node still has the version ``partition_epoch``."""
        outcomes = await self._run_fenced(
            [
                SetData(
                    paths.partition_state(partition),
                    self._encode_partition_state(partition, leader_and_isr),
                    leader_and_isr.partition_epoch,
                )
                for partition, leader_and_isr in leader_and_isrs.items()
            ]
        )
        result = UpdateLeaderAndIsrResult()
        for (partition, leader_and_isr), outcome in zip(
            leader_and_isrs.items(), outcomes, strict=True
        ):
            if isinstance(outcome, BadVersion):
                result.to_retry.append(partition)
            elif isinstance(outcome, StoreError):
                result.failed[partition] = outcome
            else:
                assert isinstance(outcome, Stat), outcome
                new = self._with_epoch_and_version(leader_and_isr, version=outcome.version)
                result.finished[partition] = new
        return result

    # Topics

    async def create_topics(self, topics: Mapping[str, TopicAssignment]) -> dict[str, StoreError]:
        intended = {
            name: (paths.topic(name), self._encode_topic(name, topics[name])) for name in topics
        }
        outcomes = await self._run_fenced(
            [Create(path, value) for path, value in intended.values()]
        )
        return await self._exclude_own_creations(intended, _failures(intended, outcomes))

    async def set_topic_assignments(
        self, topics: Mapping[str, TopicAssignment]
    ) -> dict[str, StoreError]:
        """Write ids and assignments of existing topics."""
        writes = [
            SetData(paths.topic(name), self._encode_topic(name, topics[name])) for name in topics
        ]
        return _failures(topics, await self._run_fenced(writes))

    async def update_assignments(
        self, assignments: Mapping[TopicPartition, ReplicaAssignment]
    ) -> dict[str, StoreError]:
        """Update partitions of existing topics; partitions added concurrently are kept."""
        remaining: dict[str, dict[int, ReplicaAssignment]] = {}
        for (name, number), assignment in assignments.items():
            remaining.setdefault(name, {})[number] = assignment
        failed: dict[str, StoreError] = {}
        while remaining:
            nodes = await self._store.run([GetData(paths.topic(name)) for name in remaining])
            failed |= _failures(remaining, nodes)
            topic_nodes = {
                name: node
                for name, node in zip(remaining, nodes, strict=True)
                if name not in failed
            }
            writes = {
                name: write
                for name, node in topic_nodes.items()
                if isinstance(node, ZNode)
                and (write := _assignment_update(name, node, remaining[name]))
            }
            not_written = _failures(writes, await self._run_fenced([*writes.values()]))
            remaining = {
                name: remaining[name]
                for name, error in not_written.items()
                if isinstance(error, BadVersion)
            }
            failed |= {name: error for name, error in not_written.items() if name not in remaining}
        return failed

    async def create_topic_deletions(self, topics: Collection[str]) -> dict[str, StoreError]:
        """NodeExists for topics that are already marked for deletion."""
        outcomes = await self._run_fenced([Create(paths.topic_to_delete(name)) for name in topics])
        return _failures(topics, outcomes)

    async def delete_topic_deletions(self, topics: Collection[str]) -> dict[str, StoreError]:
        return await self._delete_nodes({name: paths.topic_to_delete(name) for name in topics})

    async def delete_topics(self, topics: Collection[str]) -> dict[str, StoreError]:
        """Delete all nodes of the topics.

        The deletion mark goes last: after a crash the next controller repeats the deletion.
        """
        failed = await self._delete_recursive({name: paths.topic(name) for name in topics})
        deleted = [name for name in topics if name not in failed]
        failed |= await self._delete_nodes(
            {name: paths.topic_config(name).path for name in deleted}
        )
        deleted = [name for name in deleted if name not in failed]
        return failed | await self.delete_topic_deletions(deleted)

    # Configurations

    async def set_or_create_entity_configs(
        self, configs: Mapping[paths.ConfigEntity, Mapping[str, str]]
    ) -> dict[paths.ConfigEntity, StoreError]:
        """The last writer wins, as in Kafka."""
        intended = {
            entity: (entity.path, EntityConfig(config, self._extra_fields(entity.path)).encode())
            for entity, config in configs.items()
        }
        writes = [SetData(path, value) for path, value in intended.values()]
        failed = _failures(intended, await self._run_fenced(writes))
        missing = [entity for entity, error in failed.items() if isinstance(error, NoNode)]
        parents = paths.with_parents(entity.path.rpartition("/")[0] for entity in missing)
        creations = [Create(path, value) for path, value in map(intended.__getitem__, missing)]
        outcomes = await self._run_fenced([*map(Create, parents), *creations])
        not_created = _failures(missing, outcomes[len(parents) :])
        not_retried = {entity: error for entity, error in failed.items() if entity not in missing}
        return not_retried | await self._exclude_own_creations(intended, not_created)

    async def create_config_change_notifications(
        self, entities: Iterable[paths.ConfigEntity]
    ) -> None:
        """Make all brokers read the configurations of ``entities`` again."""
        changes = [ConfigChangeNotification(entity).encode() for entity in entities]
        path = paths.CONFIG_CHANGES.create_path
        _raise_first_error(
            await self._run_fenced([Create(path, each, is_sequential=True) for each in changes])
        )

    # Requests of tools, and notifications

    async def set_or_create_partition_reassignment(
        self, replicas: Mapping[TopicPartition, tuple[int, ...]]
    ) -> None:
        """Write the reassignments that are not complete; without any, delete the node."""
        path = paths.REASSIGN_PARTITIONS
        if not replicas:
            _raise_first_error((await self._delete_nodes({path: path})).values())
            return
        await self._set_or_create(path, ReassignPartitions(replicas).encode())

    async def delete_preferred_replica_election(self) -> None:
        path = paths.PREFERRED_REPLICA_ELECTION
        _raise_first_error((await self._delete_nodes({path: path})).values())

    async def delete_notifications(
        self, sequence: paths.NodeSequence, names: Iterable[str]
    ) -> None:
        failed = await self._delete_nodes({name: sequence.child_path(name) for name in names})
        _raise_first_error(failed.values())

    # Cluster-wide nodes

    async def write_features(self, features: FinalizedFeatures, *, version: int) -> None:
        """``version`` is the version of the payload format."""
        await self._set_or_create(paths.FEATURE, features.encode(version=version))

    async def claim_producer_id_block(self, block: ProducerIdsBlock, *, version: int) -> bool:
        """Return whether the claim succeeded; ``version`` is the node's version before it."""
        value = block.encode()
        outcome, current = await self._run_fenced(
            [SetData(paths.PRODUCER_ID_BLOCK, value, version), GetData(paths.PRODUCER_ID_BLOCK)]
        )
        if isinstance(outcome, BadVersion):
            return isinstance(current, ZNode) and current.value == value
        _raise_first_error([outcome])
        return True

    # Helpers

    async def _set_or_create(self, path: str, value: bytes) -> None:
        """Write the node, whether it exists or not.

        A repeated create may find the node that its first attempt created.
        """
        (outcome,) = await self._run_fenced([SetData(path, value)])
        if isinstance(outcome, NoNode):
            (outcome,) = await self._run_fenced([Create(path, value)])
        if isinstance(outcome, NodeExists):
            (outcome,) = await self._run_fenced([SetData(path, value)])
        _raise_first_error([outcome])

    async def _run_fenced(self, operations: Sequence[Operation]) -> list[Outcome]:
        if not operations:
            return []
        fence = Check(paths.CONTROLLER_EPOCH, self._context.epoch_zk_version)
        outcomes = await self._store.run(operations, fence=fence)
        if any(isinstance(outcome, FenceCheckFailed) for outcome in outcomes):
            raise ControllerMoved(f"controller epoch {self._context.epoch} is no longer current")
        return outcomes

    async def _exclude_own_creations(
        self, intended: Mapping[Key, tuple[str, bytes]], failed: dict[Key, StoreError]
    ) -> dict[Key, StoreError]:
        """Remove the failures whose node exists with the intended value."""
        existing = [key for key, error in failed.items() if isinstance(error, NodeExists)]
        if existing:
            nodes = await self._store.run([GetData(intended[key][0]) for key in existing])
            for key, node in zip(existing, nodes, strict=True):
                if isinstance(node, ZNode) and (node.stat.version, node.value) == (
                    0,
                    intended[key][1],
                ):
                    del failed[key]
        return failed

    async def _delete_nodes(self, paths_by_key: Mapping[Key, str]) -> dict[Key, StoreError]:
        """A node that does not exist counts as deleted."""
        outcomes = await self._run_fenced([Delete(path) for path in paths_by_key.values()])
        for path in paths_by_key.values():
            self._reader.extras.pop(path, None)
        failed = _failures(paths_by_key, outcomes)
        return {key: error for key, error in failed.items() if not isinstance(error, NoNode)}

    async def _delete_recursive(self, roots: Mapping[Key, str]) -> dict[Key, StoreError]:
        """Delete children before parents; a root fails if any node below it fails."""
        nodes = level = list(roots.items())
        while level:
            outcomes = await self._store.run([GetChildren(path) for _, path in level])
            level = [
                (root, f"{path}/{name}")
                for (root, path), names in zip(level, outcomes, strict=True)
                if isinstance(names, list)
                for name in names
            ]
            nodes = nodes + level
        owners = {path: root for root, path in reversed(nodes)}
        failed = await self._delete_nodes({path: path for path in owners})
        return {owners[path]: error for path, error in failed.items()}

    def _extra_fields(self, path: str) -> Mapping[str, Any]:
        return self._reader.extras.get(path, {})

    def _with_epoch_and_version(
        self, leader_and_isr: LeaderIsrAndControllerEpoch, *, version: int
    ) -> LeaderIsrAndControllerEpoch:
        # Not dataclasses.replace, which takes four times as long; there may be thousands of states.
        return LeaderIsrAndControllerEpoch(
            leader_and_isr.leader,
            leader_and_isr.leader_epoch,
            leader_and_isr.isr,
            controller_epoch=self._context.epoch,
            partition_epoch=version,
            is_recovering=leader_and_isr.is_recovering,
        )

    def _encode_partition_state(
        self, partition: TopicPartition, leader_and_isr: LeaderIsrAndControllerEpoch
    ) -> bytes:
        return LeaderAndIsr(
            leader=leader_and_isr.leader,
            leader_epoch=leader_and_isr.leader_epoch,
            isr=leader_and_isr.isr,
            controller_epoch=self._context.epoch,
            is_recovering=leader_and_isr.is_recovering,
            extra=self._extra_fields(paths.partition_state(partition)),
        ).encode()

    def _encode_topic(self, name: str, topic: TopicAssignment) -> bytes:
        extra = topic.extra or self._extra_fields(paths.topic(name))
        return replace(topic, extra=extra).encode()


def _assignment_update(
    name: str, node: ZNode, changes: Mapping[int, ReplicaAssignment]
) -> SetData | None:
    """None if the assignment is already as requested."""
    topic = TopicAssignment.decode(node.value, name)
    changed = replace(topic, partitions={**topic.partitions, **changes})
    if changed == topic:
        return None
    return SetData(paths.topic(name), changed.encode(), node.stat.version)


def _failures(keys: Iterable[Key], outcomes: Iterable[Outcome]) -> dict[Key, StoreError]:
    return {
        key: outcome
        for key, outcome in zip(keys, outcomes, strict=True)
        if isinstance(outcome, StoreError)
    }


def _raise_first_error(outcomes: Iterable[Outcome]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, StoreError):
            raise outcome
