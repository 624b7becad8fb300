"""Measures how fast a controller, ours or Kafka's, handles a broker that repeatedly fails.

The brokers are stand-ins, registered by a session of the benchmark.  A broker fails when its znode
is deleted.  The time ends when every other broker has received metadata for all partitions of which
the failed broker had a replica, without that broker in any ISR; by then all partition states are
written.  Before the next failure the broker returns, rejoins the ISRs and leads its partitions
again: the benchmark writes this state into the store and notifies the controller of it, so every
round is like the first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from stand_in_brokers import PartitionState, StandInBrokers

from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.store import paths
from odradek.controller.store.base import Create, GetData, MetadataStore, SetData, StoreError, ZNode
from odradek.controller.store.payloads.notifications import IsrChange
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.controller.topic_names import random_topic_id
from odradek.protocol.types import TopicPartition

BROKER_IDS = (1, 2, 3)
VICTIM = 2
SURVIVORS = tuple(broker for broker in BROKER_IDS if broker != VICTIM)
PARTITIONS_PER_TOPIC = 10
#: Far below ZooKeeper's limit for one request, whatever the length of the topic names.
NOTIFICATION_PARTITIONS_MAX = 2000
RANDOM = Random(1)


@dataclass(frozen=True, slots=True)
class Layout:
    """The replicas of each partition; the first is the preferred leader."""

    partitions: Mapping[TopicPartition, tuple[int, ...]]

    @property
    def victim_partitions(self) -> list[TopicPartition]:
        return [each for each, replicas in self.partitions.items() if VICTIM in replicas]

    @classmethod
    def create(cls, count: int, *, victim_count: int) -> Layout:
        """Give the first ``victim_count`` partitions three replicas, led evenly, the others two."""
        partitions = {}
        for number in range(count):
            replicas = BROKER_IDS if number < victim_count else SURVIVORS
            rotation = number % len(replicas)
            name = f"topic-{number // PARTITIONS_PER_TOPIC}"
            partition = TopicPartition(name, number % PARTITIONS_PER_TOPIC)
            partitions[partition] = (*replicas[rotation:], *replicas[:rotation])
        return cls(partitions)

    def topics(self) -> dict[str, TopicAssignment]:
        by_topic: dict[str, dict[int, ReplicaAssignment]] = {}
        for (topic, number), replicas in self.partitions.items():
            by_topic.setdefault(topic, {})[number] = ReplicaAssignment(replicas)
        return {
            topic: TopicAssignment(each, random_topic_id(RANDOM))
            for topic, each in by_topic.items()
        }


async def create_topics(store: MetadataStore, layout: Layout) -> None:
    """Write the topics into the store, where a controller finds them when it starts."""
    topics = layout.topics().items()
    await run_operations(
        store, [Create(paths.topic(name), topic.encode()) for name, topic in topics]
    )


async def register_brokers(
    store: MetadataStore, brokers: StandInBrokers, ids: Sequence[int]
) -> None:
    registrations = {paths.broker(each): brokers.registration(each).encode() for each in ids}
    await run_operations(
        store, [Create(path, data, is_ephemeral=True) for path, data in registrations.items()]
    )


class Failover:
    """The rounds; ``broker_session`` is the session that owns the znodes of the brokers."""

    def __init__(
        self, broker_session: MetadataStore, brokers: StandInBrokers, layout: Layout
    ) -> None:
        self._broker_session = broker_session
        self._brokers = brokers
        self._layout = layout

    async def wait_until_all_updated(self) -> None:
        """Wait until all brokers have metadata of all partitions, with all replicas in sync."""
        await self._brokers.wait_until(self._is_in_sync, *BROKER_IDS)

    async def measure_failure_s(self) -> float:
        start = time.perf_counter()
        await self._broker_session.delete(paths.broker(VICTIM))
        await self._brokers.wait_until(self._is_without_victim, *SURVIVORS)
        elapsed_s = time.perf_counter() - start
        await self._check_written()
        return elapsed_s

    async def measure_return_s(self) -> float:
        self._brokers.snapshots[VICTIM].clear()
        start = time.perf_counter()
        await register_brokers(self._broker_session, self._brokers, [VICTIM])
        await self._brokers.wait_for_partition_count(len(self._layout.partitions), VICTIM)
        return time.perf_counter() - start

    async def recover(self) -> None:
        """Put all replicas back into the ISRs and make the first replica the leader."""
        states = await self._restored_states()
        await run_operations(
            self._broker_session,
            [
                SetData(paths.partition_state(each), state.encode(), node.stat.version)
                for each, (state, node) in states.items()
            ],
        )
        partitions = [*states]
        for first in range(0, len(partitions), NOTIFICATION_PARTITIONS_MAX):
            change = IsrChange(tuple(partitions[first : first + NOTIFICATION_PARTITIONS_MAX]))
            path = paths.ISR_CHANGES.create_path
            await self._broker_session.create(path, change.encode(), is_sequential=True)
        await self.wait_until_all_updated()
        changed = asyncio.Event()
        while await self._broker_session.get_children(
            paths.ISR_CHANGES.parent, lambda _: changed.set()
        ):
            await changed.wait()
            changed.clear()

    async def _restored_states(self) -> dict[TopicPartition, tuple[LeaderAndIsr, ZNode]]:
        partitions = self._layout.victim_partitions
        nodes = await run_operations(
            self._broker_session, [GetData(paths.partition_state(each)) for each in partitions]
        )
        states = {}
        for partition, node in zip(partitions, nodes, strict=True):
            assert isinstance(node, ZNode)
            state = LeaderAndIsr.decode(node.value)
            replicas = self._layout.partitions[partition]
            epoch = state.leader_epoch + 1
            restored = replace(state, leader=replicas[0], leader_epoch=epoch, isr=replicas)
            states[partition] = (restored, node)
        return states

    async def _check_written(self) -> None:
        partitions = self._layout.victim_partitions
        nodes = await run_operations(
            self._broker_session, [GetData(paths.partition_state(each)) for each in partitions]
        )
        for node in nodes:
            assert isinstance(node, ZNode)
            state = LeaderAndIsr.decode(node.value)
            assert state.leader in state.isr, state
            assert VICTIM not in state.isr, state

    def _is_in_sync(self, snapshot: Mapping[TopicPartition, PartitionState]) -> bool:
        partitions = self._layout.partitions
        return len(snapshot) == len(partitions) and all(
            state.leader == partitions[each][0] and len(state.isr) == len(partitions[each])
            for each, state in snapshot.items()
        )

    def _is_without_victim(self, snapshot: Mapping[TopicPartition, PartitionState]) -> bool:
        return not any(state.leader == VICTIM or VICTIM in state.isr for state in snapshot.values())


async def run_operations(
    store: MetadataStore, operations: Sequence[Create] | Sequence[SetData] | Sequence[GetData]
) -> list[object]:
    """Run all operations at once and raise the first error."""
    results = await store.run(operations)
    for result in results:
        if isinstance(result, StoreError):
            raise result
    return [*results]
