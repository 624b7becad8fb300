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

from odradek.broker.metadata.metadata_snapshot import Node, Topic
from odradek.protocol.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    UnknownTopicOrPartition,
)
from odradek.protocol.internal.key_partition import partition_for

#: For how long a new topic's leaders are waited for; longer than it takes, shorter than any client.
LEADER_WAIT_TIMEOUT_S = 1.0
#: For how long the store is waited for, which may be away.
PARTITION_COUNT_TIMEOUT_S = 1.0

StartTask = Callable[[Coroutine[Any, Any, bool], str], "asyncio.Task[bool]"]


class ClusterMetadata(Protocol):
    """What is known of the cluster."""

    def topic(self, name: str, /) -> Topic | None: ...

    def leader_node(self, topic: str, partition: int, /, *, listener: str) -> Node | None: ...

    async def wait_for_leaders(
        self, partitions: Mapping[str, Collection[int]], /, *, timeout_s: float
    ) -> set[str]: ...


class TopicCreator(Protocol):
    """Creates topics on first use."""

    async def create(self, names: Collection[str], /) -> Mapping[str, KafkaError]: ...


class PartitionCountSource(Protocol):
    """How many partitions the topic has."""

    def get(self, topic: Topic, /) -> int | None: ...

    async def refresh(self, topic: Topic | None, /) -> None: ...


class CoordinatorLookup:
    """Of one internal topic."""

    def __init__(
        self,
        topic: str,
        metadata_cache: ClusterMetadata,
        topic_creator: TopicCreator,
        partition_counts: PartitionCountSource,
        configured_partition_count: Callable[[], int],
        start_task: StartTask,
    ) -> None:
        """``configured_count`` is how many partitions the topic gets when it is created."""
        self.topic = topic
        self._metadata_cache = metadata_cache
        self._topic_creator = topic_creator
        self._partition_counts = partition_counts
        self._configured_partition_count = configured_partition_count
        self._start_task = start_task
        self._creation_task: asyncio.Task[bool] | None = None

    def partition_for(self, key: str) -> int:
        """Also before there is one; raises CoordinatorNotAvailable as long as nobody knows."""
        topic = self._metadata_cache.topic(self.topic)
        count = (
            self._configured_partition_count()
            if topic is None
            else self._partition_counts.get(topic)
        )
        if count is None:
            raise CoordinatorNotAvailable(f"the partition count of {self.topic} is not known yet")
        return partition_for(key, count)

    def known_partition_for(self, key: str) -> int:
        """As whoever coordinates asks; raises NotCoordinator before the picture has the topic.

        A broker that starts is told what it leads first, and of the cluster then: until then nobody
        knows how many partitions the topic has, nor which topics groups could read.
        """
        topic = self._metadata_cache.topic(self.topic)
        count = None if topic is None else self._partition_counts.get(topic)
        if count is None:
            raise NotCoordinator(f"the metadata of {self.topic} is not known yet")
        return partition_for(key, count)

    @property
    def is_ready(self) -> bool:
        """Whether the topic is there, and counted."""
        topic = self._metadata_cache.topic(self.topic)
        return topic is not None and self._partition_counts.get(topic) is not None

    async def prepare(self) -> None:
        """Until it is known and led, or has taken too long; who looks next is told which."""
        if self._metadata_cache.topic(self.topic) is None:
            await self._wait_for_creation()
        await self.refresh_partition_count()

    def on_topic_change(self) -> None:
        """The topic may be new, or have grown: it is counted before anybody asks."""
        topic = self._metadata_cache.topic(self.topic)
        if topic is not None:
            self._partition_counts.get(topic)

    async def refresh_partition_count(self) -> None:
        """If there are partitions to be counted, and the store is not out of reach."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PARTITION_COUNT_TIMEOUT_S):
                await self._partition_counts.refresh(self._metadata_cache.topic(self.topic))

    async def _wait_for_creation(self) -> None:
        if self._creation_task is None or self._creation_task.done():
            self._creation_task = self._start_task(self._create_topic(), f"creating {self.topic}")
        task = self._creation_task
        await asyncio.wait([task])
        if task.result():
            await self._metadata_cache.wait_for_leaders(
                {self.topic: range(self._configured_partition_count())},
                timeout_s=LEADER_WAIT_TIMEOUT_S,
            )

    async def _create_topic(self) -> bool:
        """Whether it may be there soon: not if it has been in creation for long."""
        errors = await self._topic_creator.create([self.topic])
        return not isinstance(errors.get(self.topic), UnknownTopicOrPartition)

    def coordinator(self, key: str, *, listener: str) -> Node:
        """Raises CoordinatorNotAvailable while nobody is."""
        node = self._metadata_cache.leader_node(
            self.topic, self.partition_for(key), listener=listener
        )
        if node is None:
            raise CoordinatorNotAvailable(f"the partition of {key!r} has no leader on {listener}")
        return node
