"""Metadata cache: the cluster metadata that the controller sends with UpdateMetadata requests.

Kafka: ZkMetadataCache.

The snapshot is replaced by one assignment.  A caller that reads it twice must keep a reference, or
it may see two snapshots.  A caller that waits until topics have leaders, or are deleted, is
notified by the update that says so.

A broker without a session receives no updates, and does not learn later which topics were deleted
meanwhile.  The controller sends all existing topics to a broker that registers, but in ZooKeeper
mode the request does not say (by ``type``) that it is complete.  Kafka's brokers show a deleted
topic until they restart.  Here, the first update with topics in a new broker epoch counts as
complete.  A newly elected controller sends an update without topics before that one, which does not
count.  Clients see the old snapshot until the complete update arrives.  A Kafka controller sends
topics without a live replica in a second request: they are missing until then.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from odradek.broker.metadata.metadata_snapshot import MetadataSnapshot, Node, PartitionState, Topic
from odradek.broker.metadata.metadata_update import apply_update
from odradek.broker.metadata.topic_waiters import TopicWaiters
from odradek.protocol.api.update_metadata import UpdateMetadataRequest
from odradek.protocol.types import ZERO_UUID, TopicPartition, Uuid

log = logging.getLogger("kafka.server")

#: In requests of versions without a broker epoch.
UNKNOWN_BROKER_EPOCH = -1

Item = TypeVar("Item")


class MetadataCache:
    """Empty until the controller sends the first update."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.snapshot = MetadataSnapshot()
        self._topic_waiters = TopicWaiters()
        self._has_brokers = asyncio.Event()
        #: The broker epoch in which the last complete update was received.
        self._last_full_update_epoch = UNKNOWN_BROKER_EPOCH
        #: Called when the live brokers or their endpoints change.
        self.broker_change_listeners: list[Callable[[], None]] = []
        #: Called when an update names the topic; the topic may be deleted.
        self.topic_listeners: dict[str, Callable[[], None]] = {}

    def update(self, request: UpdateMetadataRequest) -> tuple[TopicPartition, ...]:
        """Apply an update; return the deleted partitions."""
        before, is_first = self.snapshot, self._is_first_full_update(request)
        update = apply_update(before, request, is_after_reconnect=is_first)
        self.snapshot = update.snapshot
        if is_first and (deleted_topics := before.topics.keys() - update.snapshot.topics.keys()):
            log.info(
                "Removed topics that were deleted while this broker was disconnected: %s",
                sorted(deleted_topics),
            )
        if update.changed_topics:
            log_args = (
                request.controller_id,
                len(update.changed_topics),
                len(update.deleted_partitions),
            )
            log.debug(
                "UpdateMetadata from controller %d changed %d topic(s), deleted %d partition(s)",
                *log_args,
            )
        self._topic_waiters.notify(update.changed_topics)
        if self.snapshot.brokers.ids:
            self._has_brokers.set()
        for topic, listener in self.topic_listeners.items():
            if topic in update.changed_topics:
                listener()
        if self.snapshot.brokers != before.brokers:
            for listener in self.broker_change_listeners:
                listener()
        return update.deleted_partitions

    def _is_first_full_update(self, request: UpdateMetadataRequest) -> bool:
        names_topics = bool(request.topic_states or request.ungrouped_partition_states)
        if not names_topics or request.broker_epoch <= self._last_full_update_epoch:
            return False
        self._last_full_update_epoch = request.broker_epoch
        return True

    # Topics

    def topic(self, name: str) -> Topic | None:
        return self.snapshot.topics.get(name)

    def has_topic(self, name: str) -> bool:
        return name in self.snapshot.topics

    def topic_name(self, topic_id: Uuid, /) -> str | None:
        return self.snapshot.topic_names.get(topic_id)

    def topic_id(self, name: str, /) -> Uuid:
        """Return ZERO_UUID if the topic is unknown, or has no id."""
        topic = self.snapshot.topics.get(name)
        return ZERO_UUID if topic is None else topic.id

    # Partitions

    def has_partition(self, topic: str, partition: int, /) -> bool:
        known = self.snapshot.topics.get(topic)
        return known is not None and partition in known.partitions

    def partition(self, topic: str, partition: int, /) -> PartitionState | None:
        known = self.snapshot.topics.get(topic)
        return None if known is None else known.partitions.get(partition)

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions of all topics."""
        return [
            TopicPartition(topic.name, number)
            for topic in self.snapshot.topics.values()
            for number in topic.partitions
        ]

    # Brokers

    @property
    def controller_id(self) -> int:
        return self.snapshot.controller_id

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self.snapshot.brokers.ids

    def nodes(self, listener: str) -> Mapping[int, Node]:
        """Return the live brokers that have this listener, by id."""
        return self.snapshot.brokers.nodes_for_listener(listener)

    def leader_node(self, topic: str, partition: int, *, listener: str) -> Node | None:
        state = self.partition(topic, partition)
        return None if state is None else self.nodes(listener).get(state.leader)

    # Waiting for changes

    async def wait_for_metadata(self, *, timeout_s: float) -> None:
        """Wait until the controller has sent the live brokers.  Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await self._has_brokers.wait()

    async def wait_for_leaders(
        self, partitions: Mapping[str, Collection[int]], *, timeout_s: float
    ) -> set[str]:
        """Wait until all have leaders; return the topics that lack one at the timeout."""
        return await self._wait_for(
            partitions,
            lambda name: self._has_leaders(name, partitions[name]),
            topics=partitions,
            timeout_s=timeout_s,
        )

    async def wait_until_deleted(self, topics: Collection[str], *, timeout_s: float) -> set[str]:
        """Wait until all are deleted; return the topics that still exist at the timeout."""
        return await self._wait_for(
            topics, lambda name: not self.has_topic(name), topics=topics, timeout_s=timeout_s
        )

    async def wait_for_elections(
        self, leaders: Mapping[TopicPartition, int], *, timeout_s: float
    ) -> set[TopicPartition]:
        """Wait for these leaders; return the partitions with another leader at the timeout."""
        return await self._wait_for(
            leaders,
            lambda partition: self._is_led_by(partition, leaders[partition]),
            topics={partition.topic for partition in leaders},
            timeout_s=timeout_s,
        )

    async def _wait_for(
        self,
        items: Iterable[Item],
        is_satisfied: Callable[[Item], bool],
        *,
        topics: Iterable[str],
        timeout_s: float,
    ) -> set[Item]:
        def all_satisfied() -> bool:
            return all(map(is_satisfied, items))

        if await self._topic_waiters.wait_until(all_satisfied, topics, timeout_s=timeout_s):
            return set()
        return {item for item in items if not is_satisfied(item)}

    def _has_leaders(self, name: str, partitions: Collection[int]) -> bool:
        topic = self.topic(name)
        return topic is not None and all(map(topic.has_leader, partitions))

    def _is_led_by(self, partition: TopicPartition, leader: int) -> bool:
        state = self.partition(*partition)
        return state is not None and state.leader == leader
