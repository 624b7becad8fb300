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

from odradek.broker.metadata.picture import Node, PartitionState, Picture, Topic
from odradek.broker.metadata.picture_update import updated
from odradek.broker.metadata.topic_waiting import TopicWaiting
from odradek.protocol.api.update_metadata import UpdateMetadataRequest
from odradek.protocol.types import ZERO_UUID, TopicPartition, Uuid

log = logging.getLogger(__name__)

#: In requests of versions that do not tell.
UNKNOWN_BROKER_EPOCH = -1

Awaited = TypeVar("Awaited")


class MetadataCache:
    """Empty until the controller has spoken."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.picture = Picture()
        self._waiting = TopicWaiting()
        self._is_told = asyncio.Event()
        #: In which life of this broker it was told of all topics.
        self._whole_in_epoch = UNKNOWN_BROKER_EPOCH
        #: Called when brokers have come, gone or moved.
        self.listeners: list[Callable[[], None]] = []
        #: Called when the controller has told of the topic, which may be gone.
        self.topic_listeners: dict[str, Callable[[], None]] = {}

    def update(self, request: UpdateMetadataRequest) -> tuple[TopicPartition, ...]:
        """The partitions that are gone."""
        before, is_first = self.picture, self._is_first_of_life(request)
        after = updated(before, request, is_after_absence=is_first)
        self.picture = after.picture
        if is_first and (gone := before.topics.keys() - after.picture.topics.keys()):
            log.info("Topics are gone that were there in an earlier life: %s", sorted(gone))
        if after.topics:
            told = (request.controller_id, len(after.topics), len(after.deleted))
            log.debug("Controller %d told of %d topics; %d partitions are gone", *told)
        self._waiting.changed(after.topics)
        if self.picture.brokers.ids:
            self._is_told.set()
        for topic, listener in self.topic_listeners.items():
            if topic in after.topics:
                listener()
        if self.picture.brokers != before.brokers:
            for listener in self.listeners:
                listener()
        return after.deleted

    def _is_first_of_life(self, request: UpdateMetadataRequest) -> bool:
        names_topics = bool(request.topic_states or request.ungrouped_partition_states)
        if not names_topics or request.broker_epoch <= self._whole_in_epoch:
            return False
        self._whole_in_epoch = request.broker_epoch
        return True

    # Topics

    def topic(self, name: str) -> Topic | None:
        return self.picture.topics.get(name)

    def has_topic(self, name: str) -> bool:
        return name in self.picture.topics

    def name_of(self, topic_id: Uuid, /) -> str | None:
        return self.picture.names.get(topic_id)

    def id_of(self, name: str, /) -> Uuid:
        """ZERO_UUID if the topic is not known, or has none."""
        topic = self.picture.topics.get(name)
        return ZERO_UUID if topic is None else topic.id

    # Partitions

    def has_partition(self, topic: str, partition: int, /) -> bool:
        known = self.picture.topics.get(topic)
        return known is not None and partition in known.partitions

    def partition(self, topic: str, partition: int, /) -> PartitionState | None:
        known = self.picture.topics.get(topic)
        return None if known is None else known.partitions.get(partition)

    def partitions(self) -> list[TopicPartition]:
        """All of them."""
        return [
            TopicPartition(topic.name, number)
            for topic in self.picture.topics.values()
            for number in topic.partitions
        ]

    # Brokers

    @property
    def controller_id(self) -> int:
        return self.picture.controller_id

    def is_alive(self, broker: int) -> bool:
        return broker in self.picture.brokers.ids

    def nodes(self, listener: str) -> Mapping[int, Node]:
        """The live brokers that have this listener, by their ids."""
        return self.picture.brokers.at(listener)

    def leader_node(self, topic: str, partition: int, *, listener: str) -> Node | None:
        state = self.partition(topic, partition)
        return None if state is None else self.nodes(listener).get(state.leader)

    # Waiting

    async def wait_for_picture(self, *, timeout_s: float) -> None:
        """Until the controller has told of brokers.  Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await self._is_told.wait()

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

    async def wait_until_gone(self, topics: Collection[str], *, timeout_s: float) -> set[str]:
        """Those that are still there when the time has run out."""
        return await self._wait_for(
            topics, lambda name: not self.has_topic(name), topics=topics, timeout_s=timeout_s
        )

    async def wait_for_elected(
        self, leaders: Mapping[TopicPartition, int], *, timeout_s: float
    ) -> set[TopicPartition]:
        """The partitions that are led by another when the time has run out."""
        return await self._wait_for(
            leaders,
            lambda partition: self._is_led(partition, leaders[partition]),
            topics={partition.topic for partition in leaders},
            timeout_s=timeout_s,
        )

    async def _wait_for(
        self,
        awaited: Iterable[Awaited],
        has_come: Callable[[Awaited], bool],
        *,
        topics: Iterable[str],
        timeout_s: float,
    ) -> set[Awaited]:
        def are_here() -> bool:
            return all(map(has_come, awaited))

        if await self._waiting.wait_until(are_here, topics, timeout_s=timeout_s):
            return set()
        return {each for each in awaited if not has_come(each)}

    def _has_leaders(self, name: str, partitions: Collection[int]) -> bool:
        topic = self.topic(name)
        return topic is not None and all(map(topic.has_leader, partitions))

    def _is_led(self, partition: TopicPartition, leader: int) -> bool:
        state = self.partition(*partition)
        return state is not None and state.leader == leader
