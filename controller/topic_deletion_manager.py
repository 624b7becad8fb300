"""Topics are deleted: every broker deletes its replicas, then nothing is left of them in the tree.

    requested    somebody has made a node for it in /admin/delete_topics
    begun        its partitions have no leaders any more, and all brokers are told that it is going;
                 those with replicas are told to delete them
    complete     all have done so; its nodes go, first those of the topic, then its configuration,
                 last the request itself

A topic cannot go while a replica of it is on a broker that is not there, or could not be deleted,
and while it is being reassigned.  It is then ineligible, until that broker is back or the
reassignment is over; what can be deleted of it is deleted all the same.

What a broker has answered is known to one controller only.  The next begins again with every topic
that a request is left of, and brokers delete what is not there without complaint: so it does not
matter where the last one was interrupted.

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

log = logging.getLogger(__name__)


class TopicDeletionManager:
    """The topics that shall go.  Nothing goes before ``start``."""

    def __init__(self, services: ControllerServices) -> None:
        self._services = services
        self._context = services.context
        self._is_started = False

    async def start(self) -> None:
        """Go on with what was requested before; the states of all replicas are known now."""
        self._is_started = True
        await self._resume_deletions()

    def is_queued(self, topic: str) -> bool:
        return topic in self._context.topics_to_be_deleted

    async def enqueue_topics_for_deletion(self, topics: Collection[str]) -> None:
        """Of topics that are there; those that are requested again are where they were."""
        self._context.topics_to_be_deleted.update(topics)
        if not self._is_started:
            offline = [topic for topic in topics if self._has_offline_replicas(topic)]
            await self.mark_ineligible(offline, "they have replicas that are offline")
        await self.mark_ineligible(self._topics_being_reassigned(), "they are being reassigned")
        if self._is_started:
            await self._resume_deletions()

    async def discard_nonexistent_topics(self, topics: Collection[str]) -> None:
        """Requests for topics that are not there.

        The last controller may not have come further than to delete the topic itself.
        """
        nonexistent: list[str] = []
        if not self._is_started:
            existing = await self._services.reader.get_topic_names()
            nonexistent = [topic for topic in topics if topic not in existing]
            await self._services.writer.delete_topics(nonexistent)
        unknown = [topic for topic in topics if topic not in nonexistent]
        await self._services.writer.delete_topic_deletions(unknown)

    async def mark_ineligible(self, topics: Iterable[str], reason: str) -> None:
        """Those of them that shall go cannot, for now."""
        halted = self._context.topics_to_be_deleted.intersection(topics)
        if new := sorted(halted - self._context.topics_ineligible_for_deletion):
            log.info("Topics %s are not deleted yet: %s", new, reason)
            self._context.topics_ineligible_for_deletion.update(new)

    async def resume_deletion_for_topics(self, topics: Collection[str]) -> None:
        """What kept them may be over."""
        resumed = (
            self._context.topics_to_be_deleted.intersection(topics)
            - self._topics_being_reassigned()
        )
        if resumed:
            self._context.topics_ineligible_for_deletion -= resumed
            await self._resume_deletions()

    async def complete_replica_deletion(self, replicas: Collection[PartitionAndReplica]) -> None:
        """As their brokers say."""
        deleted = self._filter_valid_transitions(replicas, ReplicaState.DELETION_SUCCESSFUL)
        if deleted:
            await self._services.replica_state_machine.handle_state_changes(
                deleted, ReplicaState.DELETION_SUCCESSFUL
            )
            await self._resume_deletions()

    async def fail_replica_deletion(self, replicas: Collection[PartitionAndReplica]) -> None:
        """Their brokers could not delete them, or are gone."""
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
            await self.mark_ineligible(topics, "replicas could not be deleted")
            await self._resume_deletions()

    # What is to be done, for all topics that shall go

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
        log.info("Topics %s are being deleted", topics)
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
        # Followers stop before any replica goes, so that none asks a leader that is not there.
        await replica_removal.stop(self._services, online)
        await self._services.replica_state_machine.handle_state_changes(
            online, ReplicaState.DELETION_STARTED
        )
        topics = {replica.partition.topic for replica in offline}
        await self.mark_ineligible(topics, "they have replicas that are offline")

    async def _complete_delete_topics(self, topics: Collection[str]) -> None:
        failed = await self._services.writer.delete_topics(topics)
        for topic, error in failed.items():
            log.error("Topic %s is deleted, but not from the store: %r", topic, error)
        for topic in topics:
            if topic not in failed:
                log.info("Topic %s is deleted", topic)
                self._context.remove_topic(topic)

    # What is so

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
        """Those of topics that shall go for which this is the next state."""
        return [
            replica
            for replica in replicas
            if self.is_queued(replica.partition.topic)
            and state in VALID_TRANSITIONS[self._context.replica_state(replica)]
        ]
