"""A member of a group by aiokafka: see group_member_program.py.

Its loop runs while it polls or commits, which is almost always.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

from tests.support.member_consumer import (
    MemberOptions,
    Offsets,
    Record,
    Tell,
    Told,
    records,
    settings,
    subscription,
)

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class AiokafkaMember:
    def __init__(self, address: str, options: MemberOptions, tell: Tell) -> None:
        self._listener = Noted(tell)
        self._polled_max = options.polled_max
        self._runner = asyncio.Runner()
        self._commits: set[asyncio.Task[None]] = set()
        self._runner.run(self._start(address, options))

    async def _start(self, address: str, options: MemberOptions) -> None:
        self._consumer = AIOKafkaConsumer(
            partition_assignment_strategy=[ASSIGNORS[options.assignor]],
            **settings(address, options),
        )
        await self._subscribe(options.topics)
        await self._consumer.start()

    def subscribe(self, topics: list[str]) -> None:
        self._runner.run(self._subscribe(topics))

    async def _subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(listener=self._listener, **subscription(topics))

    def poll(self) -> list[Record]:
        polling = self._consumer.getmany(timeout_ms=100, max_records=self._polled_max)
        return records(self._runner.run(polling))

    def commit(self, offsets: Offsets, told: Told) -> None:
        self._runner.run(self._commit(offsets, told))

    def commit_later(self, offsets: Offsets, told: Told) -> None:
        task = self._runner.get_loop().create_task(self._commit(offsets, told))
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)

    async def _commit(self, offsets: Offsets, told: Told) -> None:
        committed = {TopicPartition(*place): offset for place, offset in offsets.items()}
        try:
            await self._consumer.commit(committed)
        except KafkaError as refusal:
            told(_name(refusal))
        else:
            told(None)

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


class Noted(ConsumerRebalanceListener):
    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._tell("assigned", partitions=[[*each] for each in assigned])

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self._tell("revoked", partitions=[[*each] for each in revoked])


def _name(refusal: KafkaError) -> str:
    """Of the broker's error, if it is that which refused."""
    cause = refusal.__cause__ or refusal
    return getattr(cause, "message", None) or type(cause).__name__
