"""Which broker coordinates a group, or a transactional id?  Whoever leads its partition.

An internal topic is created when somebody first asks for a coordinator in it.  Kafka answers that
question with COORDINATOR_NOT_AVAILABLE, and the client asks again; here it waits a moment for the
partitions to be led, and is then answered at once.  Not for long: on the same connection a consumer
may have asked for records, and the store may be out of reach for hours.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, Protocol

from odradek.broker.metadata.picture import Node, Topic
from odradek.protocol.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    UnknownTopicOrPartition,
)
from odradek.protocol.internal.key_partition import partition_of

#: For how long a new topic's leaders are waited for; longer than it takes, shorter than any client.
LEADERS_S = 1.0
#: For how long the store is waited for, which may be away.
COUNT_S = 1.0

Start = Callable[[Coroutine[Any, Any, bool], str], "asyncio.Task[bool]"]


class Cluster(Protocol):
    """What is known of the cluster."""

    def topic(self, name: str, /) -> Topic | None: ...

    def leader_node(self, topic: str, partition: int, /, *, listener: str) -> Node | None: ...

    async def wait_for_leaders(
        self, partitions: Mapping[str, Collection[int]], /, *, timeout_s: float
    ) -> set[str]: ...


class Creator(Protocol):
    """Creates topics on first use."""

    async def create(self, names: Collection[str], /) -> Mapping[str, KafkaError]: ...


class Count(Protocol):
    """How many partitions the topic has."""

    def of(self, topic: Topic, /) -> int | None: ...

    async def learn(self, topic: Topic | None, /) -> None: ...


class CoordinatorLookup:
    """Of one internal topic."""

    def __init__(
        self,
        topic: str,
        cluster: Cluster,
        creator: Creator,
        count: Count,
        configured_count: Callable[[], int],
        start: Start,
    ) -> None:
        """``configured_count`` is how many partitions the topic gets when it is created."""
        self.topic = topic
        self._cluster = cluster
        self._creator = creator
        self._count = count
        self._configured_count = configured_count
        self._start = start
        self._creation: asyncio.Task[bool] | None = None

    def partition_of(self, key: str) -> int:
        """Also before there is one; raises CoordinatorNotAvailable as long as nobody knows."""
        topic = self._cluster.topic(self.topic)
        count = self._configured_count() if topic is None else self._count.of(topic)
        if count is None:
            raise CoordinatorNotAvailable(f"the partitions of {self.topic} are not counted yet")
        return partition_of(key, count)

    def led_partition_of(self, key: str) -> int:
        """As whoever coordinates asks; raises NotCoordinator before the picture has the topic.

        A broker that starts is told what it leads first, and of the cluster then: until then nobody
        knows how many partitions the topic has, nor which topics groups could read.
        """
        topic = self._cluster.topic(self.topic)
        count = None if topic is None else self._count.of(topic)
        if count is None:
            raise NotCoordinator(f"nothing is known of {self.topic} yet")
        return partition_of(key, count)

    @property
    def is_known(self) -> bool:
        """Whether the topic is there, and counted."""
        topic = self._cluster.topic(self.topic)
        return topic is not None and self._count.of(topic) is not None

    async def prepare(self) -> None:
        """Until it is known and led, or has taken too long; who looks next is told which."""
        if self._cluster.topic(self.topic) is None:
            await self._wait_for_creation()
        await self.learn_count()

    def topic_changed(self) -> None:
        """The topic may be new, or have grown: it is counted before anybody asks."""
        topic = self._cluster.topic(self.topic)
        if topic is not None:
            self._count.of(topic)

    async def learn_count(self) -> None:
        """If there are partitions to be counted, and the store is not out of reach."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COUNT_S):
                await self._count.learn(self._cluster.topic(self.topic))

    async def _wait_for_creation(self) -> None:
        if self._creation is None or self._creation.done():
            self._creation = self._start(self._create(), f"creating {self.topic}")
        creation = self._creation
        await asyncio.wait([creation])
        if creation.result():
            await self._cluster.wait_for_leaders(
                {self.topic: range(self._configured_count())}, timeout_s=LEADERS_S
            )

    async def _create(self) -> bool:
        """Whether it may be there soon: not if it has been in creation for long."""
        told = await self._creator.create([self.topic])
        return not isinstance(told.get(self.topic), UnknownTopicOrPartition)

    def coordinator(self, key: str, *, listener: str) -> Node:
        """Raises CoordinatorNotAvailable while nobody is."""
        node = self._cluster.leader_node(self.topic, self.partition_of(key), listener=listener)
        if node is None:
            raise CoordinatorNotAvailable(f"nobody leads the partition of {key!r} at {listener}")
        return node
