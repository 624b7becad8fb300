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
from odradek.controller.context import Replica
from odradek.controller.machinery import Machinery
from odradek.controller.partition_state import PartitionState
from odradek.controller.replica_state import MOVES, ReplicaState

log = logging.getLogger(__name__)


class TopicDeletion:
    """The topics that shall go.  Nothing goes before ``start``."""

    def __init__(self, machinery: Machinery) -> None:
        self._machinery = machinery
        self._context = machinery.context
        self._is_started = False

    async def start(self) -> None:
        """Go on with what was requested before; the states of all replicas are known now."""
        self._is_started = True
        await self._advance()

    def is_queued(self, topic: str) -> bool:
        return topic in self._context.to_delete

    async def request(self, topics: Collection[str]) -> None:
        """Of topics that are there; those that are requested again are where they were."""
        self._context.to_delete.update(topics)
        if not self._is_started:
            offline = [topic for topic in topics if self._has_offline_replicas(topic)]
            await self.mark_ineligible(offline, "they have replicas that are offline")
        await self.mark_ineligible(self._being_reassigned(), "they are being reassigned")
        if self._is_started:
            await self._advance()

    async def clear_away(self, topics: Collection[str]) -> None:
        """Requests for topics that are not there.

        The last controller may not have come further than to delete the topic itself.
        """
        gone: list[str] = []
        if not self._is_started:
            there = await self._machinery.reads.topic_names()
            gone = [topic for topic in topics if topic not in there]
            await self._machinery.writes.delete_topics(gone)
        unknown = [topic for topic in topics if topic not in gone]
        await self._machinery.writes.forget_requested_deletions(unknown)

    async def mark_ineligible(self, topics: Iterable[str], reason: str) -> None:
        """Those of them that shall go cannot, for now."""
        halted = self._context.to_delete.intersection(topics)
        if new := sorted(halted - self._context.ineligible):
            log.info("Topics %s are not deleted yet: %s", new, reason)
            self._context.ineligible.update(new)

    async def resume(self, topics: Collection[str]) -> None:
        """What kept them may be over."""
        resumed = self._context.to_delete.intersection(topics) - self._being_reassigned()
        if resumed:
            self._context.ineligible -= resumed
            await self._advance()

    async def replicas_deleted(self, replicas: Collection[Replica]) -> None:
        """As their brokers say."""
        deleted = self._able(replicas, ReplicaState.DELETION_SUCCESSFUL)
        if deleted:
            await self._machinery.replicas.move(deleted, ReplicaState.DELETION_SUCCESSFUL)
            await self._advance()

    async def failed(self, replicas: Collection[Replica]) -> None:
        """Their brokers could not delete them, or are gone."""
        left = [
            replica
            for replica in replicas
            if self.is_queued(replica.partition.topic) and not self._is_deleted(replica)
        ]
        if left:
            undeleted = self._able(left, ReplicaState.DELETION_INELIGIBLE)
            await self._machinery.replicas.move(undeleted, ReplicaState.DELETION_INELIGIBLE)
            topics = {replica.partition.topic for replica in left}
            await self.mark_ineligible(topics, "replicas could not be deleted")
            await self._advance()

    # What is to be done, for all topics that shall go

    async def _advance(self) -> None:
        complete: list[str] = []
        to_begin: list[str] = []
        to_retry: list[Replica] = []
        for topic in sorted(self._context.to_delete):
            replicas = self._context.replicas_of_topic(topic)
            states = {self._context.replica_state(replica) for replica in replicas}
            if states <= {ReplicaState.DELETION_SUCCESSFUL}:
                complete.append(topic)
            elif ReplicaState.DELETION_STARTED not in states:
                to_retry += self._context.replicas_in(topic, ReplicaState.DELETION_INELIGIBLE)
                if topic not in self._context.ineligible:
                    to_begin.append(topic)
        await self._complete(complete)
        await replica_removal.stop(self._machinery, to_retry)
        await self._begin(to_begin)

    async def _begin(self, topics: Collection[str]) -> None:
        if not topics:
            return
        log.info("Topics %s are being deleted", topics)
        partitions = [each for topic in topics for each in self._context.partitions_of(topic)]
        new = [each for each in partitions if each.topic not in self._context.deleting]
        await self._machinery.partitions.move(new, PartitionState.OFFLINE)
        await self._machinery.partitions.move(new, PartitionState.NON_EXISTENT)
        self._context.deleting.update(topics)
        self._machinery.batch.update_metadata(partitions)
        await self._delete_replicas(
            replica
            for partition in partitions
            for replica in self._context.replicas_of(partition)
            if not self._is_deleted(replica)
        )

    async def _delete_replicas(self, replicas: Iterable[Replica]) -> None:
        there: list[Replica] = []
        gone: list[Replica] = []
        for replica in replicas:
            (there if self._is_online(replica) else gone).append(replica)
        undeleted = self._able(gone, ReplicaState.DELETION_INELIGIBLE)
        await self._machinery.replicas.move(undeleted, ReplicaState.DELETION_INELIGIBLE)
        # Followers stop before any replica goes, so that none asks a leader that is not there.
        await replica_removal.stop(self._machinery, there)
        await self._machinery.replicas.move(there, ReplicaState.DELETION_STARTED)
        topics = {replica.partition.topic for replica in gone}
        await self.mark_ineligible(topics, "they have replicas that are offline")

    async def _complete(self, topics: Collection[str]) -> None:
        failed = await self._machinery.writes.delete_topics(topics)
        for topic, failure in failed.items():
            log.error("Topic %s is deleted, but not from the store: %r", topic, failure)
        for topic in topics:
            if topic not in failed:
                log.info("Topic %s is deleted", topic)
                self._context.forget_topic(topic)

    # What is so

    def _being_reassigned(self) -> set[str]:
        return {partition.topic for partition in self._context.reassigning}

    def _has_offline_replicas(self, topic: str) -> bool:
        return not all(map(self._is_online, self._context.replicas_of_topic(topic)))

    def _is_online(self, replica: Replica) -> bool:
        return self._context.is_online(replica.broker, replica.partition)

    def _is_deleted(self, replica: Replica) -> bool:
        return self._context.replica_state(replica) is ReplicaState.DELETION_SUCCESSFUL

    def _able(self, replicas: Iterable[Replica], state: ReplicaState) -> list[Replica]:
        """Those of topics that shall go for which this is the next state."""
        return [
            replica
            for replica in replicas
            if self.is_queued(replica.partition.topic)
            and state in MOVES[self._context.replica_state(replica)]
        ]
