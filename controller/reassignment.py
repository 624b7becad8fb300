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
from odradek.controller.controller_context import PartitionAndReplica
from odradek.controller.controller_services import ControllerServices
from odradek.controller.leader_and_isr import NO_LEADER, LeaderIsrAndControllerEpoch
from odradek.controller.leader_and_isr_updater import LeaderAndIsrByPartition, LeaderAndIsrUpdater
from odradek.controller.leader_election import PartitionLeaderElectionStrategy
from odradek.controller.partition_state import PartitionState
from odradek.controller.reassignment_requests import (
    ReassignmentResults,
    ReassignmentTargets,
    plan_reassignment,
)
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.replica_state import ReplicaState
from odradek.controller.store.base import StoreError, Watch
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)

Assignments = dict[TopicPartition, ReplicaAssignment]


class TopicDeletions(Protocol):
    """The part of the deletion of topics that the end of a reassignment needs."""

    async def resume_deletion_for_topics(self, topics: Collection[str]) -> None: ...


class PartitionReassignmentManager:
    """Those under way.  ``watch`` is for /admin/reassign_partitions."""

    def __init__(
        self,
        services: ControllerServices,
        topic_deletion_manager: TopicDeletions,
        watch: Watch | None = None,
    ) -> None:
        self._services = services
        self._context = services.context
        self._topic_deletion_manager = topic_deletion_manager
        self._watch = watch
        self._leader_and_isr_updater = LeaderAndIsrUpdater(
            services.context, services.reader, services.writer
        )

    async def start(self) -> None:
        """Go on with those that the last controller had begun, and begin what the node asks."""
        started = await self.process_zk_partition_reassignment()
        await self._continue_reassignments(
            each
            for each in sorted(self._context.partitions_being_reassigned)
            if each not in started
        )

    async def alter_partition_reassignments(
        self, reassignments: ReassignmentTargets, *, allow_replication_factor_change: bool = True
    ) -> ReassignmentResults:
        """Begin, replace or cancel; why not, where it was not done."""
        planned, rejected = self._plan(
            reassignments, allow_replication_factor_change=allow_replication_factor_change
        )
        if rejected:
            first, error = next(iter(rejected.items()))
            log.info("%d are not reassigned, %s among them: %s", len(rejected), first, error)
        if planned:
            await self._maybe_remove_from_zk_reassignment(lambda partition, _: partition in planned)
        results = await self._start_reassignments(planned)
        return {
            partition: rejected.get(partition, results.get(partition))
            for partition in reassignments
        }

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Those of the partitions that are being reassigned; None: of all."""
        requested = (
            sorted(self._context.partitions_being_reassigned) if partitions is None else partitions
        )
        assignments = {partition: self._context.assignment(partition) for partition in requested}
        return {
            each: assignment
            for each, assignment in assignments.items()
            if assignment.is_being_reassigned
        }

    async def process_zk_partition_reassignment(self) -> Collection[TopicPartition]:
        """Do what the node asks for, if it is there; what was begun.

        It changes also when we take something out of it: what is under way then goes on.
        """
        requested = await self._services.reader.get_partition_reassignment(self._watch)
        if requested is None:
            return ()
        planned, rejected = self._plan(requested, allow_offline_brokers=True)
        new = {
            each: assignment
            for each, assignment in planned.items()
            if not self._is_in_progress(each, assignment)
        }
        results = await self._start_reassignments(new)
        rejected |= {each: error for each, error in results.items() if error is not None}
        for partition, error in rejected.items():
            log.warning("%s is not reassigned to %s: %s", partition, requested[partition], error)
        if rejected or not requested:
            await self._maybe_remove_from_zk_reassignment(
                lambda partition, _: partition in rejected
            )
        return [each for each in new if each not in rejected]

    async def process_partition_reassignment_isr_change(
        self, partitions: Iterable[TopicPartition]
    ) -> None:
        """Some may be complete now."""
        in_progress = [
            each for each in partitions if each in self._context.partitions_being_reassigned
        ]
        await self._complete_reassignments(await self._find_complete(in_progress))

    async def maybe_resume_reassignments(self, broker_ids: Collection[int]) -> None:
        """Those that were waited for may be among them."""
        new_broker_ids = set(broker_ids)
        assignments = {
            partition: self._context.assignment(partition)
            for partition in sorted(self._context.partitions_being_reassigned)
        }
        affected = [
            each
            for each, assignment in assignments.items()
            if new_broker_ids.intersection(assignment.replicas)
        ]
        await self._elect_missing_leaders(affected)
        await self._continue_reassignments(
            each
            for each in affected
            if new_broker_ids.intersection(assignments[each].target_replicas)
        )

    # Asked for

    def _plan(
        self, reassignments: ReassignmentTargets, **options: bool
    ) -> tuple[Assignments, dict[TopicPartition, KafkaError]]:
        """``terms`` are those of decide_assignment."""
        planned: Assignments = {}
        rejected: dict[TopicPartition, KafkaError] = {}
        for partition, target in reassignments.items():
            try:
                planned[partition] = plan_reassignment(self._context, partition, target, **options)
            except KafkaError as error:
                # Where it was raised would hold all of them, and be held by them.
                rejected[partition] = error.with_traceback(None)
        return planned, rejected

    def _is_in_progress(self, partition: TopicPartition, planned: ReplicaAssignment) -> bool:
        is_assigned = self._context.assignment(partition) == planned
        return is_assigned and partition in self._context.partitions_being_reassigned

    async def _maybe_remove_from_zk_reassignment(
        self, should_remove: Callable[[TopicPartition, tuple[int, ...]], bool]
    ) -> None:
        requested = await self._services.reader.get_partition_reassignment()
        if requested is None:
            return
        remaining = {
            each: target for each, target in requested.items() if not should_remove(each, target)
        }
        if len(remaining) < len(requested) or not remaining:
            log.info("The node for reassignments asks for %d more partitions", len(remaining))
            await self._services.writer.set_or_create_partition_reassignment(remaining)

    # Begun

    async def _start_reassignments(
        self, planned: Assignments
    ) -> dict[TopicPartition, KafkaError | None]:
        previous = {partition: self._context.assignment(partition) for partition in planned}
        for partition, assignment in planned.items():
            log.info("%s is reassigned from %s to %s", partition, previous[partition], assignment)
            self._context.update_assignment(partition, assignment)
        unneeded = [
            PartitionAndReplica(partition, broker)
            for partition, assignment in planned.items()
            for broker in previous[partition].replicas
            if broker not in assignment.replicas
        ]
        await self._move_leaders_off_removed_replicas(planned)
        await replica_removal.remove(self._services, unneeded)
        if unneeded:
            # Before the tree forgets them: nobody could tell their brokers afterwards.
            self._services.request_batch.send_requests_to_brokers()
        # What ends with this is written when it is over: the next controller would not go on.
        to_persist = {
            each: assignment
            for each, assignment in planned.items()
            if assignment.is_being_reassigned or not previous[each].is_being_reassigned
        }
        failed = await self._services.writer.update_assignments(to_persist)
        started = [each for each in planned if each not in to_persist or each.topic not in failed]
        for partition in planned.keys() - started:
            log.error("%s could not be reassigned: %r", partition, failed[partition.topic])
            self._context.update_assignment(partition, previous[partition])
        self._context.partitions_being_reassigned.update(started)
        failed |= await self._continue_reassignments(started)
        return {each: KafkaError() if each.topic in failed else None for each in planned}

    async def _move_leaders_off_removed_replicas(self, planned: Assignments) -> None:
        """Away from replicas that were being added and shall go; some lead already."""
        leaders = {partition: self._context.leader(partition) for partition in planned}
        to_move = [
            partition
            for partition, leader in leaders.items()
            if leader not in (None, NO_LEADER, *planned[partition].replicas)
        ]
        change_state = self._services.partition_state_machine.handle_state_changes
        results = await change_state(
            to_move, PartitionState.ONLINE, PartitionLeaderElectionStrategy.OFFLINE_PARTITION
        )
        # Those are led again when one of them is back that stay.
        failed = [
            each for each in to_move if not isinstance(results[each], LeaderIsrAndControllerEpoch)
        ]
        await change_state(failed, PartitionState.OFFLINE)

    async def _continue_reassignments(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[str, StoreError]:
        """Each to where it can come now; topics in which that could not be written."""
        in_progress = [*partitions]
        await self._start_new_replicas(in_progress)
        await self._elect_missing_leaders(in_progress)
        complete = await self._find_complete(in_progress)
        await self._update_leader_epoch_and_send_request(
            each for each in in_progress if each not in complete
        )
        return await self._complete_reassignments(complete)

    async def _start_new_replicas(self, partitions: Iterable[TopicPartition]) -> None:
        """Those that the last controller had started are told by the new epoch."""
        added = [
            PartitionAndReplica(partition, broker)
            for partition in partitions
            for broker in self._context.assignment(partition).adding_replicas
        ]
        state_of = self._context.replica_state
        new = [each for each in added if state_of(each) is ReplicaState.NON_EXISTENT]
        await self._services.replica_state_machine.handle_state_changes(new, ReplicaState.NEW)

    async def _elect_missing_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Leaders for those that nobody else elects one for.

        A partition that never had one may have its first on a new replica.  Of a topic that is to
        be deleted nobody else cares, but the deletion waits for the reassignment.
        """
        leaderless = [
            each for each in partitions if each in self._context.new_or_offline_partitions
        ]
        to_elect = [
            each
            for each in leaderless
            if each.topic in self._context.topics_to_be_deleted
            or each not in self._context.partition_leadership_info
        ]
        if to_elect:
            change_state = self._services.partition_state_machine.handle_state_changes
            await change_state(
                to_elect, PartitionState.ONLINE, PartitionLeaderElectionStrategy.OFFLINE_PARTITION
            )

    async def _update_leader_epoch_and_send_request(
        self, partitions: Iterable[TopicPartition]
    ) -> None:
        """In a new epoch, so that everyone hears of what is assigned now."""

        async def decide(current: LeaderAndIsrByPartition) -> LeaderAndIsrByPartition:
            return {each: leadership.new_epoch() for each, leadership in current.items()}

        changes = await self._leader_and_isr_updater.update(partitions, decide)
        for partition in changes.finished:
            assignment = self._context.assignment(partition)
            self._services.request_batch.add_leader_and_isr_request(
                assignment.origin_replicas, partition
            )
            # Whoever is new may choose a directory though others of it have failed.
            self._services.request_batch.add_leader_and_isr_request(
                assignment.adding_replicas, partition, is_new=True
            )
        for partition, error in changes.failed.items():
            log.error("The leader of %s is not told what is assigned: %r", partition, error)

    # Complete

    async def _find_complete(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """By what the store says: brokers of old versions write there themselves."""
        self._context.partition_leadership_info |= (
            await self._services.reader.get_topic_partition_states(partitions)
        )
        return [each for each in partitions if self._is_complete(each)]

    def _is_complete(self, partition: TopicPartition) -> bool:
        assignment = self._context.assignment(partition)
        if not assignment.is_being_reassigned:
            return True
        leadership = self._context.partition_leadership_info.get(partition)
        return (
            leadership is not None
            and set(assignment.target_replicas).issubset(leadership.isr)
            and any(
                self._context.is_replica_online(each, partition)
                for each in assignment.target_replicas
            )
        )

    async def _complete_reassignments(
        self, partitions: Collection[TopicPartition]
    ) -> dict[str, StoreError]:
        if not partitions:
            return {}
        previous = {partition: self._context.assignment(partition) for partition in partitions}
        final = {
            partition: ReplicaAssignment(previous[partition].target_replicas)
            for partition in partitions
        }
        added = [
            PartitionAndReplica(each, broker)
            for each in previous
            for broker in previous[each].adding_replicas
        ]
        online = [
            each
            for each in added
            if self._context.is_replica_online(each.broker_id, each.partition)
        ]
        await self._services.replica_state_machine.handle_state_changes(online, ReplicaState.ONLINE)
        for partition, assignment in final.items():
            self._context.update_assignment(partition, assignment)
        await self._move_leaders_if_required(partitions)
        removed = [
            PartitionAndReplica(each, broker)
            for each in previous
            for broker in previous[each].removing_replicas
        ]
        await replica_removal.remove(self._services, removed)
        await self._maybe_remove_from_zk_reassignment(
            lambda each, target: each in final and target == final[each].replicas
        )
        self._services.request_batch.add_update_metadata_request(partitions)
        # Before the tree forgets what was removed, as above.
        self._services.request_batch.send_requests_to_brokers()
        return await self._persist_final_assignments(final)

    async def _move_leaders_if_required(self, partitions: Iterable[TopicPartition]) -> None:
        keeping_leader: list[TopicPartition] = []
        to_elect: list[TopicPartition] = []
        for partition in partitions:
            leadership = self._context.partition_leadership_info.get(partition)
            if leadership is not None:
                can_stay = self._can_lead(partition, leadership)
                (keeping_leader if can_stay else to_elect).append(partition)
        change_state = self._services.partition_state_machine.handle_state_changes
        await change_state(
            to_elect, PartitionState.ONLINE, PartitionLeaderElectionStrategy.REASSIGN_PARTITION
        )
        await self._update_leader_epoch_and_send_request(keeping_leader)

    def _can_lead(
        self, partition: TopicPartition, leader_and_isr: LeaderIsrAndControllerEpoch
    ) -> bool:
        is_assigned = leader_and_isr.leader in self._context.assignment(partition).replicas
        return is_assigned and self._context.is_replica_online(leader_and_isr.leader, partition)

    async def _persist_final_assignments(
        self, final_assignments: Assignments
    ) -> dict[str, StoreError]:
        """The last step: nothing is under way any more."""
        failed = await self._services.writer.update_assignments(final_assignments)
        for topic, error in failed.items():
            log.error("The reassignment of %s is complete, but not in the store: %r", topic, error)
        for partition, assignment in final_assignments.items():
            log.info("%s is reassigned to %s", partition, list(assignment.replicas))
            self._context.partitions_being_reassigned.discard(partition)
        await self._topic_deletion_manager.resume_deletion_for_topics(
            sorted({partition.topic for partition in final_assignments})
        )
        return failed
