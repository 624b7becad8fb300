"""Handling of topics that are created, extended or removed in the store.

Kafka: KafkaController.processTopicChange and processPartitionModifications.  A client that creates
a topic or adds partitions writes only the assignment.  The controller notices it, assigns an id to
a topic without one, and brings the new partitions online.  If the topic is being deleted, the
controller removes the added partitions from its znode again.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from odradek.controller.controller_services import ControllerServices
from odradek.controller.leader_election import PartitionLeaderElectionStrategy
from odradek.controller.partition_state import PartitionState
from odradek.controller.replica_state import ReplicaState
from odradek.controller.store.payloads.topic import TopicAssignment
from odradek.controller.znode_change_handlers import ZNodeChangeHandlers
from odradek.protocol.types import TopicPartition, Uuid

log = logging.getLogger("kafka.controller")


class TopicChanges:
    """``new_topic_id`` is None if the inter-broker protocol does not support topic ids."""

    def __init__(
        self,
        services: ControllerServices,
        change_handlers: ZNodeChangeHandlers,
        new_topic_id: Callable[[], Uuid] | None,
    ) -> None:
        self._services = services
        self._context = services.context
        self._change_handlers = change_handlers
        self._new_topic_id = new_topic_id

    async def load(self) -> None:
        """Load all topics and leaderships; the state machines set the states afterwards."""
        partitions = await self._add_topics(await self._read_topic_names())
        for partition in partitions:
            if self._context.assignment(partition).is_being_reassigned:
                self._context.partitions_being_reassigned.add(partition)
        self._context.partition_leadership_info |= (
            await self._services.reader.get_topic_partition_states(partitions)
        )
        topics = len([*self._context.topics])
        log.info("Loaded %d topic(s) with %d partition(s)", topics, len(partitions))

    async def process_topic_change(self) -> None:
        """Handle topics that were created, or removed without a deletion request."""
        names = await self._read_topic_names()
        known = set(self._context.topics)
        # The TopicDeletionManager removes the topics that are being deleted.
        if deleted := sorted(known - names - self._context.topics_to_be_deleted):
            log.warning("Deleted topics: %s (removed without a deletion request)", deleted)
            for topic in deleted:
                self._context.remove_topic(topic)
        if new := sorted(names - known):
            log.info("New topics: %s", new)
            await self._on_new_partition_creation(await self._add_topics(new))

    async def process_partition_modifications(self) -> None:
        """Handle new partitions, and topics that could not be read before but can be now."""
        changed = self._change_handlers.take_changed_topics()
        unknown = [topic for topic in changed if topic not in self._context]
        added = await self._add_topics(unknown)
        topics = await self._read_topics(topic for topic in changed if topic in self._context)
        new_partitions = self._new_partitions(topics)
        deleting = {
            each.topic: None
            for each in new_partitions
            if each.topic in self._context.topics_to_be_deleted
        }
        if deleting:
            log.warning(
                "Skipping adding partitions for topics %s since they are currently being deleted",
                [*deleting],
            )
            await self._restore_assignments({topic: topics[topic] for topic in deleting})
        to_add = [each for each in new_partitions if each.topic not in deleting]
        self._update_assignments(topics, to_add)
        if new := [*added, *to_add]:
            log.info("New partition creation callback for %d partition(s)", len(new))
            await self._on_new_partition_creation(new)

    async def _read_topic_names(self) -> set[str]:
        return await self._services.reader.get_topic_names(self._change_handlers.on_topic_change)

    async def _read_topics(self, topics: Iterable[str]) -> dict[str, TopicAssignment]:
        return await self._services.reader.get_topic_assignments(
            topics, self._change_handlers.on_partition_modifications
        )

    async def _add_topics(self, names: Iterable[str]) -> list[TopicPartition]:
        """Add topics to the context; return their partitions."""
        topics = await self._assign_topic_ids(await self._read_topics(sorted(names)))
        for name, topic in topics.items():
            self._context.add_topic(name, topic.topic_id)
        added = self._new_partitions(topics)
        self._update_assignments(topics, added)
        return added

    async def _assign_topic_ids(
        self, topics: dict[str, TopicAssignment]
    ) -> dict[str, TopicAssignment]:
        """Assign ids to topics without one, such as those of old clusters."""
        new_id = self._new_topic_id
        if new_id is None:
            return topics
        with_new_ids = {
            name: replace(topic, topic_id=new_id())
            for name, topic in topics.items()
            if topic.topic_id is None
        }
        failed = await self._services.writer.set_topic_assignments(with_new_ids)
        for name, error in failed.items():
            log.error("Failed to assign an id to topic %s: %r", name, error)
        return topics | {name: topic for name, topic in with_new_ids.items() if name not in failed}

    def _new_partitions(self, topics: Mapping[str, TopicAssignment]) -> list[TopicPartition]:
        partitions = (
            TopicPartition(name, number)
            for name, topic in topics.items()
            for number in sorted(topic.partitions)
        )
        return [each for each in partitions if not self._context.has_partition(each)]

    def _update_assignments(
        self, topics: Mapping[str, TopicAssignment], partitions: Iterable[TopicPartition]
    ) -> None:
        for topic, number in partitions:
            self._context.update_assignment(
                TopicPartition(topic, number), topics[topic].partitions[number]
            )

    async def _on_new_partition_creation(self, new_partitions: Collection[TopicPartition]) -> None:
        """Bring new partitions online if any of their replicas is alive."""
        if not new_partitions:
            return
        partitions, replicas = (
            self._services.partition_state_machine,
            self._services.replica_state_machine,
        )
        await partitions.handle_state_changes(new_partitions, PartitionState.NEW)
        new_replicas = [
            replica
            for each in new_partitions
            for replica in self._context.replicas_for_partition(each)
        ]
        await replicas.handle_state_changes(new_replicas, ReplicaState.NEW)
        await partitions.handle_state_changes(
            new_partitions, PartitionState.ONLINE, PartitionLeaderElectionStrategy.OFFLINE_PARTITION
        )
        await replicas.handle_state_changes(new_replicas, ReplicaState.ONLINE)

    async def _restore_assignments(self, topics: Mapping[str, TopicAssignment]) -> None:
        restored = {}
        for name, topic in topics.items():
            partitions = self._context.partitions_for_topic(name)
            assignments = {each.partition: self._context.assignment(each) for each in partitions}
            restored[name] = replace(topic, partitions=assignments)
        failed = await self._services.writer.set_topic_assignments(restored)
        for name, error in failed.items():
            log.error("Failed to restore the partitions of topic %s: %r", name, error)
