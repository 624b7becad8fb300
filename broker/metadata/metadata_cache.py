"""What this broker knows of the cluster: the picture that UpdateMetadata brings.

The picture is replaced by one assignment.  Whoever looks twice must keep it in between, or see two
of them; whoever waits until topics have leaders, or are gone, is woken by the update that says so.

A broker whose session was over was told of nothing meanwhile, and nobody tells it later of a topic
that was deleted: the controller names all that there is to each broker that registers, but nothing
that is not, and on ZooKeeper it does not say (by ``type``) that this is all.  Kafka's brokers show
such a topic until they are restarted.  Here, the first update in a new life of this broker that
names any topic is taken for the whole.  (One without topics precedes it where a controller has just
taken office.)  To drop the picture at the registration would be simpler, but the broker would tell
clients that topics do not exist which do; this way they see the old picture until there is the new.
A new controller of Kafka's names topics of which no replica is alive in a second request: until
then, they are missing.

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

log = logging.getLogger(__name__)

#: In requests of versions that do not tell.
UNKNOWN_BROKER_EPOCH = -1

Item = TypeVar("Item")


class MetadataCache:
    """Empty until the controller has spoken."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.snapshot = MetadataSnapshot()
        self._topic_waiters = TopicWaiters()
        self._has_brokers = asyncio.Event()
        #: In which life of this broker it was told of all topics.
        self._last_full_update_epoch = UNKNOWN_BROKER_EPOCH
        #: Called when brokers have come, gone or moved.
        self.broker_change_listeners: list[Callable[[], None]] = []
        #: Called when the controller has told of the topic, which may be gone.
        self.topic_listeners: dict[str, Callable[[], None]] = {}

    def update(self, request: UpdateMetadataRequest) -> tuple[TopicPartition, ...]:
        """The partitions that are gone."""
        before, is_first = self.snapshot, self._is_first_full_update(request)
        update = apply_update(before, request, is_after_reconnect=is_first)
        self.snapshot = update.snapshot
        if is_first and (deleted_topics := before.topics.keys() - update.snapshot.topics.keys()):
            log.info(
                "Topics are gone that were there in an earlier life: %s", sorted(deleted_topics)
            )
        if update.changed_topics:
            log_args = (
                request.controller_id,
                len(update.changed_topics),
                len(update.deleted_partitions),
            )
            log.debug("Controller %d told of %d topics; %d partitions are gone", *log_args)
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
        """ZERO_UUID if the topic is not known, or has none."""
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
        """All of them."""
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
        """The live brokers that have this listener, by their ids."""
        return self.snapshot.brokers.nodes_for_listener(listener)

    def leader_node(self, topic: str, partition: int, *, listener: str) -> Node | None:
        state = self.partition(topic, partition)
        return None if state is None else self.nodes(listener).get(state.leader)

    # Waiting

    async def wait_for_metadata(self, *, timeout_s: float) -> None:
        """Until the controller has told of brokers.  Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await self._has_brokers.wait()

    async def wait_for_leaders(
        self, partitions: Mapping[str, Collection[int]], *, timeout_s: float
    ) -> set[str]:
        """The topics that lack a leader when the time has run out; empty as soon as none does."""
        return await self._wait_for(
            partitions,
            lambda name: self._has_leaders(name, partitions[name]),
            topics=partitions,
            timeout_s=timeout_s,
        )

    async def wait_until_deleted(self, topics: Collection[str], *, timeout_s: float) -> set[str]:
        """Those that are still there when the time has run out."""
        return await self._wait_for(
            topics, lambda name: not self.has_topic(name), topics=topics, timeout_s=timeout_s
        )

    async def wait_for_elections(
        self, leaders: Mapping[TopicPartition, int], *, timeout_s: float
    ) -> set[TopicPartition]:
        """The partitions that are led by another when the time has run out."""
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
