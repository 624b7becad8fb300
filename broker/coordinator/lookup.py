"""Which broker coordinates a group, or a transactional id?  Whoever leads its partition.

An internal topic is created when somebody first asks for a coordinator in it.  Kafka answers that
question with COORDINATOR_NOT_AVAILABLE, and the client asks again; here it waits a moment for the
partitions to be led, and is then answered at once.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from odradek.broker.metadata.picture import Node, Topic
from odradek.protocol.errors import CoordinatorNotAvailable, KafkaError, NotCoordinator
from odradek.protocol.internal.key_partition import partition_of

#: For how long a new topic's leaders are waited for; longer than it takes, shorter than any client.
LEADERS_S = 1.0


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
        *,
        configured_count: Callable[[], int],
    ) -> None:
        """``configured_count`` is how many partitions the topic gets when it is created."""
        self.topic = topic
        self._cluster = cluster
        self._creator = creator
        self._count = count
        self._configured_count = configured_count

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
            await self._creator.create([self.topic])
            await self._cluster.wait_for_leaders(
                {self.topic: range(self._configured_count())}, timeout_s=LEADERS_S
            )
        await self.learn_count()

    async def learn_count(self) -> None:
        """If there are partitions to be counted."""
        await self._count.learn(self._cluster.topic(self.topic))

    def coordinator(self, key: str, *, listener: str) -> Node:
        """Raises CoordinatorNotAvailable while nobody is."""
        node = self._cluster.leader_node(self.topic, self.partition_of(key), listener=listener)
        if node is None:
            raise CoordinatorNotAvailable(f"nobody leads the partition of {key!r} at {listener}")
        return node
