"""Partitions move to other brokers (KIP-455).

    begun      the topic's node says what is being added and removed; until the end all of them are
               replicas.  The leader is told in a new epoch, new replicas are told to follow it
    complete   when all of the target are in sync: one of them leads; what was to be removed leaves
               the in-sync replicas and is deleted; last, the topic's node has the target alone

Cancelled is reassigned to where it was; replaced is reassigned to somewhere else.  In both cases
what was being added for nothing leaves the in-sync replicas first, and then the node.

It is asked for by a request or by the node /admin/reassign_partitions, out of which each partition
is taken when it is complete or was asked for otherwise.  The last one asked counts.

The topic's node alone says what is under way, and is written last both when replicas go and when it
is over.  So the next controller finds every replica that there is, wherever the last one was
interrupted, and does the step again.

All partitions that are at the same step are moved together, each step with one run of the store.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from odradek.controller import replica_removal
from odradek.controller.assignment import Assignment
from odradek.controller.context import Replica
from odradek.controller.leader_election import Occasion
from odradek.controller.leadership import NO_LEADER, Leadership
from odradek.controller.leadership_changes import LeadershipChanges, Leaderships
from odradek.controller.machinery import Machinery
from odradek.controller.partition_state import PartitionState
from odradek.controller.reassignment_requests import Outcomes, Targets, decide_assignment
from odradek.controller.replica_state import ReplicaState
from odradek.controller.store.base import StoreError, Watch
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)

Assignments = dict[TopicPartition, Assignment]


class Deletions(Protocol):
    """The part of the deletion of topics that the end of a reassignment needs."""

    async def resume(self, topics: Collection[str]) -> None: ...


class Reassignments:
    """Those under way.  ``watch`` is for /admin/reassign_partitions."""

    def __init__(
        self, machinery: Machinery, deletions: Deletions, watch: Watch | None = None
    ) -> None:
        self._machinery = machinery
        self._context = machinery.context
        self._deletions = deletions
        self._watch = watch
        self._changes = LeadershipChanges(machinery.context, machinery.reads, machinery.writes)

    async def start(self) -> None:
        """Go on with those that the last controller had begun, and begin what the node asks."""
        begun = await self.from_node()
        await self._advance(each for each in sorted(self._context.reassigning) if each not in begun)

    async def alter(self, requested: Targets, *, may_change_factor: bool = True) -> Outcomes:
        """Begin, replace or cancel; why not, where it was not done."""
        planned, refused = self._plan(requested, may_change_factor=may_change_factor)
        if refused:
            first, failure = next(iter(refused.items()))
            log.info("%d are not reassigned, %s among them: %s", len(refused), first, failure)
        if planned:
            await self._take_from_node(lambda partition, _: partition in planned)
        done = await self._begin(planned)
        return {partition: refused.get(partition, done.get(partition)) for partition in requested}

    def listed(
        self, partitions: Iterable[TopicPartition] | None
    ) -> Mapping[TopicPartition, Assignment]:
        """Those of the partitions that are being reassigned; None: of all."""
        asked = sorted(self._context.reassigning) if partitions is None else partitions
        found = {partition: self._context.assignment(partition) for partition in asked}
        return {
            each: assignment for each, assignment in found.items() if assignment.is_being_reassigned
        }

    async def from_node(self) -> Collection[TopicPartition]:
        """Do what the node asks for, if it is there; what was begun.

        It changes also when we take something out of it: what is under way then goes on.
        """
        asked = await self._machinery.reads.reassignments(self._watch)
        if asked is None:
            return ()
        planned, refused = self._plan(asked, may_wait_for_brokers=True)
        new = {each: to for each, to in planned.items() if not self._is_going_to(each, to)}
        done = await self._begin(new)
        refused |= {each: failure for each, failure in done.items() if failure is not None}
        for partition, failure in refused.items():
            log.warning("%s is not reassigned to %s: %s", partition, asked[partition], failure)
        if refused or not asked:
            await self._take_from_node(lambda partition, _: partition in refused)
        return [each for each in new if each not in refused]

    async def isr_changed(self, partitions: Iterable[TopicPartition]) -> None:
        """Some may be complete now."""
        under_way = [each for each in partitions if each in self._context.reassigning]
        await self._finish(await self._complete_of(under_way))

    async def brokers_joined(self, ids: Collection[int]) -> None:
        """Those that were waited for may be among them."""
        joined = set(ids)
        assignments = {
            partition: self._context.assignment(partition)
            for partition in sorted(self._context.reassigning)
        }
        touched = [each for each, at in assignments.items() if joined.intersection(at.replicas)]
        await self._elect_missing(touched)
        await self._advance(
            each for each in touched if joined.intersection(assignments[each].target)
        )

    # Asked for

    def _plan(
        self, requested: Targets, **terms: bool
    ) -> tuple[Assignments, dict[TopicPartition, KafkaError]]:
        """``terms`` are those of decide_assignment."""
        planned: Assignments = {}
        refused: dict[TopicPartition, KafkaError] = {}
        for partition, target in requested.items():
            try:
                planned[partition] = decide_assignment(self._context, partition, target, **terms)
            except KafkaError as refusal:
                # Where it was raised would hold all of them, and be held by them.
                refused[partition] = refusal.with_traceback(None)
        return planned, refused

    def _is_going_to(self, partition: TopicPartition, planned: Assignment) -> bool:
        is_so = self._context.assignment(partition) == planned
        return is_so and partition in self._context.reassigning

    async def _take_from_node(
        self, is_taken: Callable[[TopicPartition, tuple[int, ...]], bool]
    ) -> None:
        asked = await self._machinery.reads.reassignments()
        if asked is None:
            return
        left = {each: target for each, target in asked.items() if not is_taken(each, target)}
        if len(left) < len(asked) or not left:
            log.info("The node for reassignments asks for %d more partitions", len(left))
            await self._machinery.writes.write_reassignments(left)

    # Begun

    async def _begin(self, planned: Assignments) -> dict[TopicPartition, KafkaError | None]:
        before = {partition: self._context.assignment(partition) for partition in planned}
        for partition, assignment in planned.items():
            log.info("%s is reassigned from %s to %s", partition, before[partition], assignment)
            self._context.assign(partition, assignment)
        unneeded = [
            Replica(partition, broker)
            for partition, assignment in planned.items()
            for broker in before[partition].replicas
            if broker not in assignment.replicas
        ]
        await self._move_leaders(planned)
        await replica_removal.remove(self._machinery, unneeded)
        if unneeded:
            # Before the tree forgets them: nobody could tell their brokers afterwards.
            self._machinery.batch.send()
        # What ends with this is written when it is over: the next controller would not go on.
        lasting = {
            each: to
            for each, to in planned.items()
            if to.is_being_reassigned or not before[each].is_being_reassigned
        }
        failed = await self._machinery.writes.assign(lasting)
        begun = [each for each in planned if each not in lasting or each.topic not in failed]
        for partition in planned.keys() - begun:
            log.error("%s could not be reassigned: %r", partition, failed[partition.topic])
            self._context.assign(partition, before[partition])
        self._context.reassigning.update(begun)
        failed |= await self._advance(begun)
        return {each: KafkaError() if each.topic in failed else None for each in planned}

    async def _move_leaders(self, planned: Assignments) -> None:
        """Away from replicas that were being added and shall go; some lead already."""
        leaders = {partition: self._context.leader(partition) for partition in planned}
        going = [
            partition
            for partition, leader in leaders.items()
            if leader not in (None, NO_LEADER, *planned[partition].replicas)
        ]
        move = self._machinery.partitions.move
        moved = await move(going, PartitionState.ONLINE, Occasion.OFFLINE)
        # Those are led again when one of them is back that stay.
        unmoved = [each for each in going if not isinstance(moved[each], Leadership)]
        await move(unmoved, PartitionState.OFFLINE)

    async def _advance(self, partitions: Iterable[TopicPartition]) -> dict[str, StoreError]:
        """Each to where it can come now; topics in which that could not be written."""
        under_way = [*partitions]
        await self._start_added(under_way)
        await self._elect_missing(under_way)
        complete = await self._complete_of(under_way)
        await self._announce(each for each in under_way if each not in complete)
        return await self._finish(complete)

    async def _start_added(self, partitions: Iterable[TopicPartition]) -> None:
        """Those that the last controller had started are told by the new epoch."""
        added = [
            Replica(partition, broker)
            for partition in partitions
            for broker in self._context.assignment(partition).adding
        ]
        states = self._context.replica_state
        new = [each for each in added if states(each) is ReplicaState.NON_EXISTENT]
        await self._machinery.replicas.move(new, ReplicaState.NEW)

    async def _elect_missing(self, partitions: Iterable[TopicPartition]) -> None:
        """Leaders for those that nobody else elects one for.

        A partition that never had one may have its first on a new replica.  Of a topic that is to
        be deleted nobody else cares, but the deletion waits for the reassignment.
        """
        waiting = [each for each in partitions if each in self._context.waiting_for_leader]
        ours = [
            each
            for each in waiting
            if each.topic in self._context.to_delete or each not in self._context.leaderships
        ]
        if ours:
            move = self._machinery.partitions.move
            await move(ours, PartitionState.ONLINE, Occasion.OFFLINE)

    async def _announce(self, partitions: Iterable[TopicPartition]) -> None:
        """In a new epoch, so that everyone hears of what is assigned now."""

        async def decide(current: Leaderships) -> Leaderships:
            return {each: leadership.in_new_epoch() for each, leadership in current.items()}

        changes = await self._changes.make(partitions, decide)
        for partition in changes.done:
            assignment = self._context.assignment(partition)
            self._machinery.batch.leader_and_isr(assignment.origin, partition)
            # Whoever is new may choose a directory though others of it have failed.
            self._machinery.batch.leader_and_isr(assignment.adding, partition, is_new=True)
        for partition, failure in changes.failed.items():
            log.error("The leader of %s is not told what is assigned: %r", partition, failure)

    # Complete

    async def _complete_of(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """By what the store says: brokers of old versions write there themselves."""
        self._context.leaderships |= await self._machinery.reads.leaderships(partitions)
        return [each for each in partitions if self._is_complete(each)]

    def _is_complete(self, partition: TopicPartition) -> bool:
        assignment = self._context.assignment(partition)
        if not assignment.is_being_reassigned:
            return True
        leadership = self._context.leaderships.get(partition)
        return (
            leadership is not None
            and set(assignment.target).issubset(leadership.isr)
            and any(self._context.is_online(each, partition) for each in assignment.target)
        )

    async def _finish(self, partitions: Collection[TopicPartition]) -> dict[str, StoreError]:
        if not partitions:
            return {}
        before = {partition: self._context.assignment(partition) for partition in partitions}
        final = {partition: Assignment(before[partition].target) for partition in partitions}
        added = [Replica(each, broker) for each in before for broker in before[each].adding]
        there = [each for each in added if self._context.is_online(each.broker, each.partition)]
        await self._machinery.replicas.move(there, ReplicaState.ONLINE)
        for partition, assignment in final.items():
            self._context.assign(partition, assignment)
        await self._settle_leaders(partitions)
        removed = [Replica(each, broker) for each in before for broker in before[each].removing]
        await replica_removal.remove(self._machinery, removed)
        await self._take_from_node(
            lambda each, target: each in final and target == final[each].replicas
        )
        self._machinery.batch.update_metadata(partitions)
        # Before the tree forgets what was removed, as above.
        self._machinery.batch.send()
        return await self._forget(final)

    async def _settle_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        staying: list[TopicPartition] = []
        moving: list[TopicPartition] = []
        for partition in partitions:
            leadership = self._context.leaderships.get(partition)
            if leadership is not None:
                can_stay = self._can_lead(partition, leadership)
                (staying if can_stay else moving).append(partition)
        move = self._machinery.partitions.move
        await move(moving, PartitionState.ONLINE, Occasion.REASSIGNMENT)
        await self._announce(staying)

    def _can_lead(self, partition: TopicPartition, leadership: Leadership) -> bool:
        is_assigned = leadership.leader in self._context.assignment(partition).replicas
        return is_assigned and self._context.is_online(leadership.leader, partition)

    async def _forget(self, final: Assignments) -> dict[str, StoreError]:
        """The last step: nothing is under way any more."""
        failed = await self._machinery.writes.assign(final)
        for topic, failure in failed.items():
            log.error(
                "The reassignment of %s is complete, but not in the store: %r", topic, failure
            )
        for partition, assignment in final.items():
            log.info("%s is reassigned to %s", partition, list(assignment.replicas))
            self._context.reassigning.discard(partition)
        await self._deletions.resume(sorted({partition.topic for partition in final}))
        return failed
