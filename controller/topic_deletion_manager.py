"""Deletion of topics: every broker deletes its replicas, then the controller deletes the znodes.

Kafka: TopicDeletionManager.

    requested    a client has created a znode for the topic in /admin/delete_topics
    started      the partitions have no leaders any more; all brokers get UpdateMetadata with the
                 deletion, and brokers with replicas get StopReplica with deletion
    complete     all brokers have deleted their replicas; the controller deletes the topic's znodes,
                 then its configuration, and last the deletion request

A topic is ineligible for deletion while one of its replicas is on an offline broker or could not be
deleted, and while it is being reassigned.  It stays ineligible until that broker is back or the
reassignment completes; its other replicas are deleted anyway.

Crash order: only one controller knows the brokers' responses.  The next controller starts again
with every topic whose deletion request exists, and brokers accept the deletion of a replica that
does not exist.  So it does not matter where the previous controller was interrupted.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from odradek.controller import replica_removal
from odradek.controller.controller_context import PartitionAndReplica
from odradek.controller.controller_services import ControllerServices
from odradek.controller.partition_state import PartitionState
from odradek.controller.replica_state import VALID_TRANSITIONS, ReplicaState

log = logging.getLogger("kafka.controller")


class TopicDeletionManager:
    """The topics to be deleted.  No deletion starts before ``start``."""

    def __init__(self, services: ControllerServices) -> None:
        self._services = services
        self._context = services.context
        self._is_started = False

    async def start(self) -> None:
        """Resume the requested deletions.  The states of all replicas must be known."""
        self._is_started = True
        await self._resume_deletions()

    def is_queued(self, topic: str) -> bool:
        return topic in self._context.topics_to_be_deleted

    async def enqueue_topics_for_deletion(self, topics: Collection[str]) -> None:
        """Queue existing topics for deletion; topics already in the queue keep their progress."""
        self._context.topics_to_be_deleted.update(topics)
        if not self._is_started:
            offline = [topic for topic in topics if self._has_offline_replicas(topic)]
            await self.mark_ineligible(offline, "offline replicas")
        await self.mark_ineligible(
            self._topics_being_reassigned(), "topic reassignment in progress"
        )
        if self._is_started:
            await self._resume_deletions()

    async def discard_nonexistent_topics(self, topics: Collection[str]) -> None:
        """Delete the requests for topics that do not exist.

        The previous controller may have deleted only the topic's own znodes: delete the rest, too.
        """
        nonexistent: list[str] = []
        if not self._is_started:
            existing = await self._services.reader.get_topic_names()
            nonexistent = [topic for topic in topics if topic not in existing]
            await self._services.writer.delete_topics(nonexistent)
        unknown = [topic for topic in topics if topic not in nonexistent]
        await self._services.writer.delete_topic_deletions(unknown)

    async def mark_ineligible(self, topics: Iterable[str], reason: str) -> None:
        """Halt the deletion of those topics that are queued for deletion."""
        halted = self._context.topics_to_be_deleted.intersection(topics)
        if new := sorted(halted - self._context.topics_ineligible_for_deletion):
            log.info("Halted deletion of topics %s due to %s", new, reason)
            self._context.topics_ineligible_for_deletion.update(new)

    async def resume_deletion_for_topics(self, topics: Collection[str]) -> None:
        """Resume deletions whose topics may be eligible again."""
        resumed = (
            self._context.topics_to_be_deleted.intersection(topics)
            - self._topics_being_reassigned()
        )
        if resumed:
            self._context.topics_ineligible_for_deletion -= resumed
            await self._resume_deletions()

    async def complete_replica_deletion(self, replicas: Collection[PartitionAndReplica]) -> None:
        """Handle replicas that their brokers have deleted."""
        deleted = self._filter_valid_transitions(replicas, ReplicaState.DELETION_SUCCESSFUL)
        if deleted:
            await self._services.replica_state_machine.handle_state_changes(
                deleted, ReplicaState.DELETION_SUCCESSFUL
            )
            await self._resume_deletions()

    async def fail_replica_deletion(self, replicas: Collection[PartitionAndReplica]) -> None:
        """Handle replicas that their brokers failed to delete, or whose brokers are offline."""
        failed = [
            replica
            for replica in replicas
            if self.is_queued(replica.partition.topic) and not self._is_deleted(replica)
        ]
        if failed:
            ineligible = self._filter_valid_transitions(failed, ReplicaState.DELETION_INELIGIBLE)
            await self._services.replica_state_machine.handle_state_changes(
                ineligible, ReplicaState.DELETION_INELIGIBLE
            )
            topics = {replica.partition.topic for replica in failed}
            await self.mark_ineligible(topics, "replica deletion failure")
            await self._resume_deletions()

    # The next step of all topics to be deleted

    async def _resume_deletions(self) -> None:
        complete: list[str] = []
        to_start: list[str] = []
        to_retry: list[PartitionAndReplica] = []
        for topic in sorted(self._context.topics_to_be_deleted):
            replicas = self._context.replicas_for_topic(topic)
            states = {self._context.replica_state(replica) for replica in replicas}
            if states <= {ReplicaState.DELETION_SUCCESSFUL}:
                complete.append(topic)
            elif ReplicaState.DELETION_STARTED not in states:
                to_retry += self._context.replicas_in_state(topic, ReplicaState.DELETION_INELIGIBLE)
                if topic not in self._context.topics_ineligible_for_deletion:
                    to_start.append(topic)
        await self._complete_delete_topics(complete)
        await replica_removal.stop(self._services, to_retry)
        await self._on_topic_deletion(to_start)

    async def _on_topic_deletion(self, topics: Collection[str]) -> None:
        if not topics:
            return
        log.info("Deletion of topics %s (re)started", topics)
        partitions = [
            each for topic in topics for each in self._context.partitions_for_topic(topic)
        ]
        new = [
            each
            for each in partitions
            if each.topic not in self._context.topics_with_deletion_started
        ]
        await self._services.partition_state_machine.handle_state_changes(
            new, PartitionState.OFFLINE
        )
        await self._services.partition_state_machine.handle_state_changes(
            new, PartitionState.NON_EXISTENT
        )
        self._context.topics_with_deletion_started.update(topics)
        self._services.request_batch.add_update_metadata_request(partitions)
        await self._delete_replicas(
            replica
            for partition in partitions
            for replica in self._context.replicas_for_partition(partition)
            if not self._is_deleted(replica)
        )

    async def _delete_replicas(self, replicas: Iterable[PartitionAndReplica]) -> None:
        online: list[PartitionAndReplica] = []
        offline: list[PartitionAndReplica] = []
        for replica in replicas:
            (online if self._is_online(replica) else offline).append(replica)
        ineligible = self._filter_valid_transitions(offline, ReplicaState.DELETION_INELIGIBLE)
        await self._services.replica_state_machine.handle_state_changes(
            ineligible, ReplicaState.DELETION_INELIGIBLE
        )
        # Stop followers before any replica is deleted, or they would fetch from a missing leader.
        await replica_removal.stop(self._services, online)
        await self._services.replica_state_machine.handle_state_changes(
            online, ReplicaState.DELETION_STARTED
        )
        topics = {replica.partition.topic for replica in offline}
        await self.mark_ineligible(topics, "offline replicas")

    async def _complete_delete_topics(self, topics: Collection[str]) -> None:
        failed = await self._services.writer.delete_topics(topics)
        for topic, error in failed.items():
            log.error("Failed to delete topic %s from the store: %r", topic, error)
        for topic in topics:
            if topic not in failed:
                log.info("Deletion of topic %s successfully completed", topic)
                self._context.remove_topic(topic)

    # Queries

    def _topics_being_reassigned(self) -> set[str]:
        return {partition.topic for partition in self._context.partitions_being_reassigned}

    def _has_offline_replicas(self, topic: str) -> bool:
        return not all(map(self._is_online, self._context.replicas_for_topic(topic)))

    def _is_online(self, replica: PartitionAndReplica) -> bool:
        return self._context.is_replica_online(replica.broker_id, replica.partition)

    def _is_deleted(self, replica: PartitionAndReplica) -> bool:
        return self._context.replica_state(replica) is ReplicaState.DELETION_SUCCESSFUL

    def _filter_valid_transitions(
        self, replicas: Iterable[PartitionAndReplica], state: ReplicaState
    ) -> list[PartitionAndReplica]:
        """Return the replicas of queued topics for which ``state`` is a valid next state."""
        return [
            replica
            for replica in replicas
            if self.is_queued(replica.partition.topic)
            and state in VALID_TRANSITIONS[self._context.replica_state(replica)]
        ]
