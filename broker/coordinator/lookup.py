"""Finds the coordinator of a group or transactional id: the leader of its partition.

The first request for a coordinator creates the internal topic.  Kafka responds to that request with
COORDINATOR_NOT_AVAILABLE, and the client retries.  Odradek waits until the partitions have leaders
and then responds with the coordinator.  The wait is short, for two reasons: a consumer may have a
fetch outstanding on the same connection, and the metadata store may be unreachable for hours.

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

#: Wait for the leaders of a new topic: longer than an election takes, shorter than client timeouts.
LEADER_WAIT_TIMEOUT_S = 1.0
#: Wait for the metadata store, which may be unreachable.
PARTITION_COUNT_TIMEOUT_S = 1.0

StartTask = Callable[[Coroutine[Any, Any, bool], str], "asyncio.Task[bool]"]


class ClusterMetadata(Protocol):
    """The part of the metadata cache that the lookup needs."""

    def topic(self, name: str, /) -> Topic | None: ...

    def leader_node(self, topic: str, partition: int, /, *, listener: str) -> Node | None: ...

    async def wait_for_leaders(
        self, partitions: Mapping[str, Collection[int]], /, *, timeout_s: float
    ) -> set[str]: ...


class TopicCreator(Protocol):
    """Creates topics on first use."""

    async def create(self, names: Collection[str], /) -> Mapping[str, KafkaError]: ...


class PartitionCountSource(Protocol):
    """Returns the partition count of the internal topic."""

    def get(self, topic: Topic, /) -> int | None: ...

    async def refresh(self, topic: Topic | None, /) -> None: ...


class CoordinatorLookup:
    """Finds the coordinators of one internal topic."""

    def __init__(
        self,
        topic: str,
        metadata_cache: ClusterMetadata,
        topic_creator: TopicCreator,
        partition_counts: PartitionCountSource,
        configured_partition_count: Callable[[], int],
        start_task: StartTask,
    ) -> None:
        """``configured_partition_count`` returns the count for a topic that is not created yet."""
        self.topic = topic
        self._metadata_cache = metadata_cache
        self._topic_creator = topic_creator
        self._partition_counts = partition_counts
        self._configured_partition_count = configured_partition_count
        self._start_task = start_task
        self._creation_task: asyncio.Task[bool] | None = None

    def partition_for(self, key: str) -> int:
        """Return the partition of ``key``, also before the topic exists.

        Raises CoordinatorNotAvailable while the partition count is unknown.
        """
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
        """Return the partition of ``key`` for a request to this broker as the coordinator.

        Raises NotCoordinator until the metadata cache has the topic.  A starting broker receives
        LeaderAndIsr before UpdateMetadata.  In between it knows neither the partition count of the
        topic nor the topics that groups could read.
        """
        topic = self._metadata_cache.topic(self.topic)
        count = None if topic is None else self._partition_counts.get(topic)
        if count is None:
            raise NotCoordinator(f"the metadata of {self.topic} is not known yet")
        return partition_for(key, count)

    @property
    def is_ready(self) -> bool:
        """Whether the topic exists and its partition count is known."""
        topic = self._metadata_cache.topic(self.topic)
        return topic is not None and self._partition_counts.get(topic) is not None

    async def prepare(self) -> None:
        """Create the topic if necessary; return when it is known and has leaders, or on timeout.

        The following lookup raises an error if the preparation timed out.
        """
        if self._metadata_cache.topic(self.topic) is None:
            await self._wait_for_creation()
        await self.refresh_partition_count()

    def on_topic_change(self) -> None:
        """Start reading the count of a new or expanded topic before a request needs it."""
        topic = self._metadata_cache.topic(self.topic)
        if topic is not None:
            self._partition_counts.get(topic)

    async def refresh_partition_count(self) -> None:
        """Read the partition count again, but do not wait long for an unreachable store."""
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
        """Return whether the topic may exist soon; False if its creation is pending for long."""
        errors = await self._topic_creator.create([self.topic])
        return not isinstance(errors.get(self.topic), UnknownTopicOrPartition)

    def coordinator(self, key: str, *, listener: str) -> Node:
        """Return the coordinator of ``key``; raise CoordinatorNotAvailable if there is none."""
        node = self._metadata_cache.leader_node(
            self.topic, self.partition_for(key), listener=listener
        )
        if node is None:
            raise CoordinatorNotAvailable(f"the partition of {key!r} has no leader on {listener}")
        return node
