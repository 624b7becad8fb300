"""A broker fails and returns, again and again, under whatever controller looks after the tree.

The brokers are stand-ins, registered by a session of the benchmark's; one fails when its node is
deleted.  The time is that until every other broker was told of all partitions that it had a replica
of, and that it is in sync with none of them: by then all is written.  Before it fails again it
comes back, is in sync and leads what it did: this is written into the tree, and the controller is
notified of it, so that every round is like the first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from stand_in_brokers import StandInBrokers, Told

from odradek.controller.assignment import Assignment
from odradek.controller.store import paths
from odradek.controller.store.base import Create, Get, MetadataStore, Node, Set, StoreError
from odradek.controller.store.payloads.notifications import IsrChange
from odradek.controller.store.payloads.topic import LeaderAndIsr, TopicAssignment
from odradek.controller.topic_names import random_topic_id
from odradek.protocol.types import TopicPartition

BROKERS = (1, 2, 3)
VICTIM = 2
OTHERS = tuple(broker for broker in BROKERS if broker != VICTIM)
PARTITIONS_OF_TOPIC = 10
#: Far below what ZooKeeper takes in one request, whatever topics are called.
NOTIFIED_AT_ONCE = 2000
CHANCE = Random(1)


@dataclass(frozen=True, slots=True)
class Layout:
    """Replicas of each partition; the first is to lead."""

    partitions: Mapping[TopicPartition, tuple[int, ...]]

    @property
    def of_victim(self) -> list[TopicPartition]:
        return [each for each, at in self.partitions.items() if VICTIM in at]

    @classmethod
    def of(cls, count: int, *, with_victim: int) -> Layout:
        """Those with the victim have three replicas, evenly led; the others have two."""
        partitions = {}
        for number in range(count):
            at = BROKERS if number < with_victim else OTHERS
            turn = number % len(at)
            name = f"topic-{number // PARTITIONS_OF_TOPIC}"
            partition = TopicPartition(name, number % PARTITIONS_OF_TOPIC)
            partitions[partition] = (*at[turn:], *at[:turn])
        return cls(partitions)

    def topics(self) -> dict[str, TopicAssignment]:
        by_topic: dict[str, dict[int, Assignment]] = {}
        for (topic, number), at in self.partitions.items():
            by_topic.setdefault(topic, {})[number] = Assignment(at)
        return {
            topic: TopicAssignment(each, random_topic_id(CHANCE))
            for topic, each in by_topic.items()
        }


async def create_topics(store: MetadataStore, layout: Layout) -> None:
    """Into the tree, where a controller finds them when it starts."""
    topics = layout.topics().items()
    await run(store, [Create(paths.topic(name), topic.encode()) for name, topic in topics])


async def register(store: MetadataStore, brokers: StandInBrokers, ids: Sequence[int]) -> None:
    registrations = {paths.broker(each): brokers.registration(each).encode() for each in ids}
    await run(store, [Create(path, at, is_ephemeral=True) for path, at in registrations.items()])


class Failover:
    """``outside`` is the session that the brokers' nodes belong to."""

    def __init__(self, outside: MetadataStore, brokers: StandInBrokers, layout: Layout) -> None:
        self._outside = outside
        self._brokers = brokers
        self._layout = layout

    async def until_all_are_told(self) -> None:
        """Of everything there is, and that all brokers are in sync."""
        await self._brokers.until(self._is_whole, *BROKERS)

    async def failing_s(self) -> float:
        start = time.perf_counter()
        await self._outside.delete(paths.broker(VICTIM))
        await self._brokers.until(self._is_without_victim, *OTHERS)
        elapsed_s = time.perf_counter() - start
        await self._check_written()
        return elapsed_s

    async def returning_s(self) -> float:
        self._brokers.pictures[VICTIM].clear()
        start = time.perf_counter()
        await register(self._outside, self._brokers, [VICTIM])
        await self._brokers.until_told_of(len(self._layout.partitions), VICTIM)
        return time.perf_counter() - start

    async def recover(self) -> None:
        """All replicas are in sync, and the first of them leads."""
        states = await self._states()
        await run(
            self._outside,
            [
                Set(paths.partition_state(each), state.encode(), node.stat.version)
                for each, (state, node) in states.items()
            ],
        )
        partitions = [*states]
        for first in range(0, len(partitions), NOTIFIED_AT_ONCE):
            change = IsrChange(tuple(partitions[first : first + NOTIFIED_AT_ONCE]))
            path = paths.ISR_CHANGES.new
            await self._outside.create(path, change.encode(), is_sequential=True)
        await self.until_all_are_told()
        changed = asyncio.Event()
        while await self._outside.children(paths.ISR_CHANGES.parent, lambda _: changed.set()):
            await changed.wait()
            changed.clear()

    async def _states(self) -> dict[TopicPartition, tuple[LeaderAndIsr, Node]]:
        partitions = self._layout.of_victim
        nodes = await run(self._outside, [Get(paths.partition_state(each)) for each in partitions])
        states = {}
        for partition, node in zip(partitions, nodes, strict=True):
            assert isinstance(node, Node)
            found = LeaderAndIsr.decode(node.value)
            replicas = self._layout.partitions[partition]
            epoch = found.leader_epoch + 1
            back = replace(found, leader=replicas[0], leader_epoch=epoch, isr=replicas)
            states[partition] = (back, node)
        return states

    async def _check_written(self) -> None:
        partitions = self._layout.of_victim
        nodes = await run(self._outside, [Get(paths.partition_state(each)) for each in partitions])
        for node in nodes:
            assert isinstance(node, Node)
            state = LeaderAndIsr.decode(node.value)
            assert state.leader in state.isr, state
            assert VICTIM not in state.isr, state

    def _is_whole(self, picture: Mapping[TopicPartition, Told]) -> bool:
        partitions = self._layout.partitions
        return len(picture) == len(partitions) and all(
            told.leader == partitions[each][0] and len(told.isr) == len(partitions[each])
            for each, told in picture.items()
        )

    def _is_without_victim(self, picture: Mapping[TopicPartition, Told]) -> bool:
        return not any(told.leader == VICTIM or VICTIM in told.isr for told in picture.values())


async def run(
    store: MetadataStore, operations: Sequence[Create] | Sequence[Set] | Sequence[Get]
) -> list[object]:
    """All at once; what fails is raised."""
    outcomes = await store.run(operations)
    for outcome in outcomes:
        if isinstance(outcome, StoreError):
            raise outcome
    return [*outcomes]
