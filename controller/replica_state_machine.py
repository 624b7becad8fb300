"""Moves replicas from state to state: the store first, then the context, then the brokers.

    NEW                    its broker is told to follow, if the partition has a leader
    NEW -> ONLINE          only noted: it has been told
    ONLINE                 its broker is told again who leads
    OFFLINE                its broker is told to stop it; it leaves the in-sync replicas, unless it
                           is the last of them, and leads no more; the others are told
    DELETION_STARTED       its broker is told to delete it
    DELETION_SUCCESSFUL,
    DELETION_INELIGIBLE    only noted
    NON_EXISTENT           it is forgotten

What the table of moves does not have is refused and logged.  A replica that cannot be moved stays
where it is; others are moved all the same.  Nothing is sent here: what brokers are to be told is in
the batch.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Set

from odradek.controller.assignment import Assignment
from odradek.controller.context import Context, Replica
from odradek.controller.leadership import NO_LEADER, Leadership
from odradek.controller.leadership_changes import (
    LeadershipChanges,
    Leaderships,
    StateChangeFailed,
    log_failures,
)
from odradek.controller.metadata_reads import MetadataReads
from odradek.controller.metadata_writes import MetadataWrites
from odradek.controller.replica_state import MOVES, ReplicaState
from odradek.controller.request_batch import RequestBatch
from odradek.controller.store.base import NoNode
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)

Failures = dict[Replica, StateChangeFailed]


class ReplicaMachine:
    """The only one to change replicas' states."""

    def __init__(
        self, context: Context, reads: MetadataReads, writes: MetadataWrites, batch: RequestBatch
    ) -> None:
        self._context = context
        self._batch = batch
        self._changes = LeadershipChanges(context, reads, writes)

    async def start(self) -> None:
        """Find out which replicas are there.

        Those that are not count as ineligible for deletion until their brokers are back, whether
        or not their topics are to be deleted.
        """
        there: list[Replica] = []
        gone: list[Replica] = []
        for partition in self._context.partitions:
            for replica in self._context.replicas_of(partition):
                is_there = self._context.is_online(replica.broker, partition)
                (there if is_there else gone).append(replica)
        self._note(there, ReplicaState.ONLINE)
        self._note(gone, ReplicaState.DELETION_INELIGIBLE)
        await self.move(there, ReplicaState.ONLINE)
        await self.move(gone, ReplicaState.OFFLINE)

    async def move(self, replicas: Iterable[Replica], target: ReplicaState) -> None:
        legal, failed = self._legal(replicas, target)
        match target:
            case ReplicaState.NEW:
                failed |= self._begin(legal)
            case ReplicaState.ONLINE:
                self._bring_online(legal)
            case ReplicaState.OFFLINE:
                failed |= await self._take_offline(legal)
            case ReplicaState.DELETION_STARTED:
                self._note(legal, target)
                for replica in legal:
                    self._batch.stop_replica(replica, deletes=True)
            case ReplicaState.DELETION_SUCCESSFUL | ReplicaState.DELETION_INELIGIBLE:
                self._note(legal, target)
            case ReplicaState.NON_EXISTENT:
                self._forget(legal)
        log_failures(log, f"Replicas do not become {target.name}", failed)

    def _legal(
        self, replicas: Iterable[Replica], target: ReplicaState
    ) -> tuple[list[Replica], Failures]:
        legal: list[Replica] = []
        refused: Failures = {}
        for replica in dict.fromkeys(replicas):
            state = self._context.replica_state(replica)
            if target in MOVES[state]:
                legal.append(replica)
            else:
                refused[replica] = StateChangeFailed(f"illegal, it is {state.name}")
        return legal, refused

    def _note(self, replicas: Iterable[Replica], state: ReplicaState) -> None:
        self._context.replica_states.update(dict.fromkeys(replicas, state))

    def _begin(self, replicas: Iterable[Replica]) -> Failures:
        failed: Failures = {}
        for replica in replicas:
            leader = self._context.leader(replica.partition)
            if leader == replica.broker:
                failed[replica] = StateChangeFailed("it leads, and cannot be new")
                continue
            if leader is not None:
                self._batch.leader_and_isr([replica.broker], replica.partition, is_new=True)
            self._note([replica], ReplicaState.NEW)
        return failed

    def _bring_online(self, replicas: Iterable[Replica]) -> None:
        for replica in replicas:
            partition, broker = replica
            if self._context.replica_state(replica) is ReplicaState.NEW:
                self._assign(partition, broker)
            elif self._context.leader(partition) is not None:
                self._batch.leader_and_isr([broker], partition)
            self._note([replica], ReplicaState.ONLINE)

    def _assign(self, partition: TopicPartition, broker: int) -> None:
        now = self._context.assignment(partition)
        if broker not in now.replicas:
            log.error("Replica %d of %s is not one of its assignment %s", broker, partition, now)
            replicas = (*now.replicas, broker)
            self._context.assign(partition, Assignment(replicas, now.adding, now.removing))

    def _forget(self, replicas: Iterable[Replica]) -> None:
        for partition, broker in replicas:
            self._context.assign(partition, self._context.assignment(partition).without(broker))
            self._context.replica_states.pop(Replica(partition, broker), None)

    # Those that are going

    async def _take_offline(self, replicas: Collection[Replica]) -> Failures:
        going: dict[TopicPartition, set[int]] = {}
        for replica in replicas:
            self._batch.stop_replica(replica, deletes=False)
            going.setdefault(replica.partition, set()).add(replica.broker)
        led = {each: None for each in going if each in self._context.leaderships}

        async def decide(current: Leaderships) -> Leaderships:
            return {each: _without(current[each], going[each]) for each in current}

        changes = await self._changes.make(led, decide)
        failed = {
            Replica(partition, broker): StateChangeFailed(repr(why))
            for partition, why in changes.failed.items()
            for broker in sorted(going[partition])
            # Of a topic that is going the store may have nothing any more.
            if partition.topic not in self._context.to_delete or not isinstance(why, NoNode)
        }
        self._note((each for each in replicas if each not in failed), ReplicaState.OFFLINE)
        for partition in changes.done:
            if partition.topic not in self._context.to_delete:
                replicas_left = self._context.assignment(partition).replicas
                others = [each for each in replicas_left if each not in going[partition]]
                self._batch.leader_and_isr(others, partition)
        if leaderless := [each for each in going if each not in led]:
            self._batch.update_metadata(leaderless)
        return failed


def _without(now: Leadership, going: Set[int]) -> Leadership:
    """Somebody stays in sync even if all go, or nobody could lead again without losing records.

    Whoever was in sync and goes ends the epoch, as with Kafka, even if nothing else changes.
    """
    if now.leader not in going and going.isdisjoint(now.isr):
        return now
    isr = tuple(each for each in now.isr if each not in going)
    if not isr:
        isr = (now.leader,) if now.leader in now.isr else now.isr[:1]
    leader = NO_LEADER if now.leader in going else now.leader
    return now.led_by(leader, isr, is_recovering=now.is_recovering)
