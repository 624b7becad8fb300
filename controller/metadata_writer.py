"""What the controller changes in the tree, each write only as long as it is the controller.

Every write is conditional on the version of /controller_epoch, which the next controller raises
before it does anything else: whoever finds it raised has been replaced, perhaps without knowing,
and gets ControllerMoved.  Nothing but the event queue catches that; it resigns.

Each change is one pipelined run of the store, however many partitions it is about, and every
partition or topic has an outcome of its own.  A write whose answer was lost is sent again by the
store and may find itself done: what we meant to create and find as we meant it is created.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from odradek.controller.assignment import Assignment
from odradek.controller.context import Context
from odradek.controller.leadership import Leadership
from odradek.controller.metadata_reads import MetadataReads
from odradek.controller.store import paths
from odradek.controller.store.base import (
    BadVersion,
    Check,
    Children,
    Create,
    Delete,
    Fenced,
    Get,
    MetadataStore,
    Node,
    NodeExists,
    NoNode,
    Operation,
    Outcome,
    Set,
    Stat,
    StoreError,
)
from odradek.controller.store.payloads.admin import ReassignPartitions
from odradek.controller.store.payloads.cluster import FinalizedFeatures, ProducerIdBlock
from odradek.controller.store.payloads.config import ConfigChange, EntityConfig
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.protocol.types import TopicPartition

Key = TypeVar("Key")


class ControllerMoved(Exception):
    """Another broker is the controller now; nothing was written."""


@dataclass(slots=True)
class Written:
    """What became of changes to leaderships, partition by partition."""

    #: As they are now: with the epoch of this controller and the version of the node.
    done: dict[TopicPartition, Leadership] = field(default_factory=dict)
    #: Somebody else has changed them: look again, and decide again.
    outdated: list[TopicPartition] = field(default_factory=list)
    failed: dict[TopicPartition, StoreError] = field(default_factory=dict)


class MetadataWrites:
    """Changes of the tree.  Those that return a dictionary return what failed, and why."""

    def __init__(self, store: MetadataStore, context: Context, reads: MetadataReads) -> None:
        self._store = store
        self._context = context
        self._reads = reads

    # Leaders

    async def create_leaderships(self, leaderships: Mapping[TopicPartition, Leadership]) -> Written:
        """Of partitions that had none, with the nodes above theirs."""
        meant = {
            each: (paths.partition_state(each), self._state(each, leadership))
            for each, leadership in leaderships.items()
        }
        above = dict.fromkeys(paths.topic_partitions(each.topic) for each in leaderships)
        above |= dict.fromkeys(map(paths.partition, leaderships))
        creations = [Create(path, value) for path, value in meant.values()]
        outcomes = await self._run([*map(Create, above), *creations])
        failures = _failures(meant, outcomes[len(above) :])
        failed = await self._unless_as_meant(meant, failures)
        done = {
            each: self._as_written(leadership, version=0)
            for each, leadership in leaderships.items()
            if each not in failed
        }
        return Written(done, failed=failed)

    async def update_leaderships(self, leaderships: Mapping[TopicPartition, Leadership]) -> Written:
        """Each only if its node still has the version that ``partition_epoch`` says."""
        outcomes = await self._run(
            [
                Set(paths.partition_state(each), self._state(each, new), new.partition_epoch)
                for each, new in leaderships.items()
            ]
        )
        written = Written()
        for (partition, leadership), outcome in zip(leaderships.items(), outcomes, strict=True):
            if isinstance(outcome, BadVersion):
                written.outdated.append(partition)
            elif isinstance(outcome, StoreError):
                written.failed[partition] = outcome
            else:
                assert isinstance(outcome, Stat), outcome
                new = self._as_written(leadership, version=outcome.version)
                written.done[partition] = new
        return written

    # Topics

    async def create_topics(self, topics: Mapping[str, TopicAssignment]) -> dict[str, StoreError]:
        meant = {name: (paths.topic(name), self._topic(name, topics[name])) for name in topics}
        outcomes = await self._run([Create(path, value) for path, value in meant.values()])
        return await self._unless_as_meant(meant, _failures(meant, outcomes))

    async def write_topics(self, topics: Mapping[str, TopicAssignment]) -> dict[str, StoreError]:
        """Ids and assignments of topics that are there."""
        writes = [Set(paths.topic(name), self._topic(name, topics[name])) for name in topics]
        return _failures(topics, await self._run(writes))

    async def assign(
        self, assignments: Mapping[TopicPartition, Assignment]
    ) -> dict[str, StoreError]:
        """Partitions of topics that are there; what somebody else has added to them stays."""
        left: dict[str, dict[int, Assignment]] = {}
        for (name, number), assignment in assignments.items():
            left.setdefault(name, {})[number] = assignment
        failed: dict[str, StoreError] = {}
        while left:
            nodes = await self._store.run([Get(paths.topic(name)) for name in left])
            failed |= _failures(left, nodes)
            found = {
                name: each for name, each in zip(left, nodes, strict=True) if name not in failed
            }
            writes = {
                name: write
                for name, node in found.items()
                if isinstance(node, Node) and (write := _reassigned(name, node, left[name]))
            }
            unwritten = _failures(writes, await self._run([*writes.values()]))
            left = {
                name: left[name] for name, why in unwritten.items() if isinstance(why, BadVersion)
            }
            failed |= {name: why for name, why in unwritten.items() if name not in left}
        return failed

    async def request_deletions(self, topics: Collection[str]) -> dict[str, StoreError]:
        """NodeExists for those that are to be deleted already."""
        outcomes = await self._run([Create(paths.topic_to_delete(name)) for name in topics])
        return _failures(topics, outcomes)

    async def forget_requested_deletions(self, topics: Collection[str]) -> dict[str, StoreError]:
        return await self._delete({name: paths.topic_to_delete(name) for name in topics})

    async def delete_topics(self, topics: Collection[str]) -> dict[str, StoreError]:
        """All that is known of them; last, that they are to be deleted: a crash comes back here."""
        failed = await self._delete_trees({name: paths.topic(name) for name in topics})
        gone = [name for name in topics if name not in failed]
        failed |= await self._delete({name: paths.topic_config(name).path for name in gone})
        gone = [name for name in gone if name not in failed]
        return failed | await self.forget_requested_deletions(gone)

    # Configurations

    async def write_configs(
        self, configs: Mapping[paths.ConfigEntity, Mapping[str, str]]
    ) -> dict[paths.ConfigEntity, StoreError]:
        """The last writer wins, as with Kafka."""
        meant = {
            entity: (entity.path, EntityConfig(config, self._extra(entity.path)).encode())
            for entity, config in configs.items()
        }
        writes = [Set(path, value) for path, value in meant.values()]
        failed = _failures(meant, await self._run(writes))
        missing = [entity for entity, why in failed.items() if isinstance(why, NoNode)]
        above = paths.with_parents(entity.path.rpartition("/")[0] for entity in missing)
        creations = [Create(path, value) for path, value in map(meant.__getitem__, missing)]
        outcomes = await self._run([*map(Create, above), *creations])
        uncreated = _failures(missing, outcomes[len(above) :])
        refused = {entity: why for entity, why in failed.items() if entity not in missing}
        return refused | await self._unless_as_meant(meant, uncreated)

    async def notify_of_config(self, entities: Iterable[paths.ConfigEntity]) -> None:
        """Tell all brokers to read these again."""
        changes = [ConfigChange(entity).encode() for entity in entities]
        path = paths.CONFIG_CHANGES.new
        _raise_first(await self._run([Create(path, each, is_sequential=True) for each in changes]))

    # What tools asked for, and notifications

    async def write_reassignments(self, replicas: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        """What is left to do of what was asked; nothing left, nothing there."""
        path = paths.REASSIGN_PARTITIONS
        if not replicas:
            _raise_first((await self._delete({path: path})).values())
            return
        await self._put(path, ReassignPartitions(replicas).encode())

    async def delete_preferred_elections(self) -> None:
        path = paths.PREFERRED_REPLICA_ELECTION
        _raise_first((await self._delete({path: path})).values())

    async def delete_notifications(
        self, sequence: paths.NodeSequence, names: Iterable[str]
    ) -> None:
        failed = await self._delete({name: sequence.child(name) for name in names})
        _raise_first(failed.values())

    # What a cluster has one of

    async def write_features(self, features: FinalizedFeatures, *, version: int) -> None:
        """``version`` is that of the payload."""
        await self._put(paths.FEATURE, features.encode(version=version))

    async def claim_producer_ids(self, block: ProducerIdBlock, *, version: int) -> bool:
        """Whether nobody else was faster; ``version`` is that of the block before."""
        value = block.encode()
        written, found = await self._run(
            [Set(paths.PRODUCER_ID_BLOCK, value, version), Get(paths.PRODUCER_ID_BLOCK)]
        )
        if isinstance(written, BadVersion):
            return isinstance(found, Node) and found.value == value
        _raise_first([written])
        return True

    # Parts

    async def _put(self, path: str, value: bytes) -> None:
        """Whether there is a node or not; one that is resent finds what it has created itself."""
        (outcome,) = await self._run([Set(path, value)])
        if isinstance(outcome, NoNode):
            (outcome,) = await self._run([Create(path, value)])
        if isinstance(outcome, NodeExists):
            (outcome,) = await self._run([Set(path, value)])
        _raise_first([outcome])

    async def _run(self, operations: Sequence[Operation]) -> list[Outcome]:
        if not operations:
            return []
        fence = Check(paths.CONTROLLER_EPOCH, self._context.epoch_version)
        outcomes = await self._store.run(operations, fence=fence)
        if any(isinstance(outcome, Fenced) for outcome in outcomes):
            raise ControllerMoved(f"epoch {self._context.epoch} is over")
        return outcomes

    async def _unless_as_meant(
        self, meant: Mapping[Key, tuple[str, bytes]], failed: dict[Key, StoreError]
    ) -> dict[Key, StoreError]:
        """What failed, but for nodes that are there with the value that was meant for them."""
        existing = [key for key, failure in failed.items() if isinstance(failure, NodeExists)]
        if existing:
            nodes = await self._store.run([Get(meant[key][0]) for key in existing])
            for key, node in zip(existing, nodes, strict=True):
                if isinstance(node, Node) and (node.stat.version, node.value) == (0, meant[key][1]):
                    del failed[key]
        return failed

    async def _delete(self, by_path: Mapping[Key, str]) -> dict[Key, StoreError]:
        """What is gone already is as good as deleted."""
        outcomes = await self._run([Delete(path) for path in by_path.values()])
        for path in by_path.values():
            self._reads.extras.pop(path, None)
        failed = _failures(by_path, outcomes)
        return {key: why for key, why in failed.items() if not isinstance(why, NoNode)}

    async def _delete_trees(self, roots: Mapping[Key, str]) -> dict[Key, StoreError]:
        """Each node after those below it; a root has failed if any of them has."""
        nodes = level = list(roots.items())
        while level:
            outcomes = await self._store.run([Children(path) for _, path in level])
            level = [
                (root, f"{path}/{name}")
                for (root, path), names in zip(level, outcomes, strict=True)
                if isinstance(names, list)
                for name in names
            ]
            nodes = nodes + level
        owners = {path: root for root, path in reversed(nodes)}
        failed = await self._delete({path: path for path in owners})
        return {owners[path]: why for path, why in failed.items()}

    def _extra(self, path: str) -> Mapping[str, Any]:
        return self._reads.extras.get(path, {})

    def _as_written(self, leadership: Leadership, *, version: int) -> Leadership:
        # Not by ``replace``, which takes four times as long; there may be thousands.
        return Leadership(
            leadership.leader,
            leadership.leader_epoch,
            leadership.isr,
            controller_epoch=self._context.epoch,
            partition_epoch=version,
            is_recovering=leadership.is_recovering,
        )

    def _state(self, partition: TopicPartition, leadership: Leadership) -> bytes:
        return LeaderAndIsr(
            leader=leadership.leader,
            leader_epoch=leadership.leader_epoch,
            isr=leadership.isr,
            controller_epoch=self._context.epoch,
            is_recovering=leadership.is_recovering,
            extra=self._extra(paths.partition_state(partition)),
        ).encode()

    def _topic(self, name: str, topic: TopicAssignment) -> bytes:
        extra = topic.extra or self._extra(paths.topic(name))
        return replace(topic, extra=extra).encode()


def _reassigned(name: str, node: Node, changes: Mapping[int, Assignment]) -> Set | None:
    """None if it is so already."""
    topic = TopicAssignment.decode(node.value, name)
    changed = replace(topic, partitions={**topic.partitions, **changes})
    if changed == topic:
        return None
    return Set(paths.topic(name), changed.encode(), node.stat.version)


def _failures(keys: Iterable[Key], outcomes: Iterable[Outcome]) -> dict[Key, StoreError]:
    return {
        key: outcome
        for key, outcome in zip(keys, outcomes, strict=True)
        if isinstance(outcome, StoreError)
    }


def _raise_first(outcomes: Iterable[Outcome]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, StoreError):
            raise outcome
