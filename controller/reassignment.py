"""Reassignment of partitions to other brokers (KIP-455).

Kafka: KafkaController.onPartitionReassignment, processApiPartitionReassignment and
processZkPartitionReassignment.

    started    the topic's znode names the replicas being added and removed; until completion all of
               them are replicas.  The controller sends LeaderAndIsr with a new leader epoch to the
               existing replicas, and starts the new replicas as followers
    complete   when all target replicas are in the ISR: a target replica becomes the leader, the
               removed replicas leave the ISR and are deleted, and last the topic's znode is written
               with the target replicas alone

A cancellation is a reassignment to the original replicas; a replacement is a reassignment to
another target.  In both cases the added replicas that are no longer needed leave the ISR first, and
the topic's znode afterwards.

A reassignment is requested by AlterPartitionReassignments or by the znode
/admin/reassign_partitions.  The controller removes a partition from that znode when its
reassignment completes or when a request replaces it.  The latest request for a partition counts.

Crash order: the topic's znode is the only record of reassignments in progress.  It is written last,
both when unneeded replicas are removed and when the reassignment completes.  So the next controller
finds every existing replica, and repeats the step at which the previous controller failed.

Partitions at the same step are processed together, with one round of store operations per step.

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

log = logging.getLogger("kafka.controller")

Assignments = dict[TopicPartition, ReplicaAssignment]


class TopicDeletions(Protocol):
    """The part of TopicDeletionManager that a completed reassignment needs."""

    async def resume_deletion_for_topics(self, topics: Collection[str]) -> None: ...


class PartitionReassignmentManager:
    """Runs the partition reassignments.  ``watch`` is the watch of /admin/reassign_partitions."""

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
        """Continue the reassignments in progress, and start those that the znode requests."""
        started = await self.process_zk_partition_reassignment()
        await self._continue_reassignments(
            each
            for each in sorted(self._context.partitions_being_reassigned)
            if each not in started
        )

    async def alter_partition_reassignments(
        self, reassignments: ReassignmentTargets, *, allow_replication_factor_change: bool = True
    ) -> ReassignmentResults:
        """Start, replace or cancel reassignments; return the error, or None, of each partition."""
        planned, rejected = self._plan(
            reassignments, allow_replication_factor_change=allow_replication_factor_change
        )
        if rejected:
            first, error = next(iter(rejected.items()))
            log.info(
                "Skipping reassignment of %d partition(s), first %s: %s",
                len(rejected),
                first,
                error,
            )
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
        """Return the reassignments in progress of these partitions, or of all if None."""
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
        """Start what the znode requests, if it exists; return the partitions that were started.

        The watch also fires when this controller removes partitions from the znode.  Reassignments
        already in progress then just continue.
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
            log.warning(
                "Skipping reassignment of %s to %s: %s", partition, requested[partition], error
            )
        if rejected or not requested:
            await self._maybe_remove_from_zk_reassignment(
                lambda partition, _: partition in rejected
            )
        return [each for each in new if each not in rejected]

    async def process_partition_reassignment_isr_change(
        self, partitions: Iterable[TopicPartition]
    ) -> None:
        """Complete the reassignments whose target replicas are all in the ISR now."""
        in_progress = [
            each for each in partitions if each in self._context.partitions_being_reassigned
        ]
        await self._complete_reassignments(await self._find_complete(in_progress))

    async def maybe_resume_reassignments(self, broker_ids: Collection[int]) -> None:
        """Continue the reassignments that involve brokers which have just started."""
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

    # Requests

    def _plan(
        self, reassignments: ReassignmentTargets, **options: bool
    ) -> tuple[Assignments, dict[TopicPartition, KafkaError]]:
        """Plan each reassignment; ``options`` are those of plan_reassignment."""
        planned: Assignments = {}
        rejected: dict[TopicPartition, KafkaError] = {}
        for partition, target in reassignments.items():
            try:
                planned[partition] = plan_reassignment(self._context, partition, target, **options)
            except KafkaError as error:
                # The traceback would keep all plans alive, in a reference cycle.
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
            log.info("Partitions remaining in /admin/reassign_partitions: %d", len(remaining))
            await self._services.writer.set_or_create_partition_reassignment(remaining)

    # Start

    async def _start_reassignments(
        self, planned: Assignments
    ) -> dict[TopicPartition, KafkaError | None]:
        previous = {partition: self._context.assignment(partition) for partition in planned}
        for partition, assignment in planned.items():
            log.info(
                "Starting reassignment of %s from %s to %s",
                partition,
                previous[partition],
                assignment,
            )
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
            # Send before the znode drops these replicas: a later controller would not know them.
            self._services.request_batch.send_requests_to_brokers()
        # A reassignment that this step completes is written on completion only; otherwise the
        # next controller would not know that it must finish it.
        to_persist = {
            each: assignment
            for each, assignment in planned.items()
            if assignment.is_being_reassigned or not previous[each].is_being_reassigned
        }
        failed = await self._services.writer.update_assignments(to_persist)
        started = [each for each in planned if each not in to_persist or each.topic not in failed]
        for partition in planned.keys() - started:
            log.error("Failed to reassign %s: %r", partition, failed[partition.topic])
            self._context.update_assignment(partition, previous[partition])
        self._context.partitions_being_reassigned.update(started)
        failed |= await self._continue_reassignments(started)
        return {each: KafkaError() if each.topic in failed else None for each in planned}

    async def _move_leaders_off_removed_replicas(self, planned: Assignments) -> None:
        """Elect new leaders where the leader is an added replica that is no longer assigned."""
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
        # These partitions get a leader when one of their remaining replicas is online again.
        failed = [
            each for each in to_move if not isinstance(results[each], LeaderIsrAndControllerEpoch)
        ]
        await change_state(failed, PartitionState.OFFLINE)

    async def _continue_reassignments(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[str, StoreError]:
        """Advance each reassignment as far as possible; return the store errors by topic."""
        in_progress = [*partitions]
        await self._start_new_replicas(in_progress)
        await self._elect_missing_leaders(in_progress)
        complete = await self._find_complete(in_progress)
        await self._update_leader_epoch_and_send_request(
            each for each in in_progress if each not in complete
        )
        return await self._complete_reassignments(complete)

    async def _start_new_replicas(self, partitions: Iterable[TopicPartition]) -> None:
        """Start the added replicas that do not exist yet.

        Replicas that a previous controller started receive LeaderAndIsr with the new leader epoch.
        """
        added = [
            PartitionAndReplica(partition, broker)
            for partition in partitions
            for broker in self._context.assignment(partition).adding_replicas
        ]
        state_of = self._context.replica_state
        new = [each for each in added if state_of(each) is ReplicaState.NON_EXISTENT]
        await self._services.replica_state_machine.handle_state_changes(new, ReplicaState.NEW)

    async def _elect_missing_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Elect leaders where no other part of the controller does.

        A partition that never had a leader may get its first one on an added replica.  Other
        elections skip topics that are being deleted, but the deletion waits for the reassignment.
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
        """Increment the leader epoch, and send LeaderAndIsr to all replicas of the assignment."""

        async def decide(current: LeaderAndIsrByPartition) -> LeaderAndIsrByPartition:
            return {each: leadership.new_epoch() for each, leadership in current.items()}

        changes = await self._leader_and_isr_updater.update(partitions, decide)
        for partition in changes.finished:
            assignment = self._context.assignment(partition)
            self._services.request_batch.add_leader_and_isr_request(
                assignment.origin_replicas, partition
            )
            # A new replica may be created in another log directory even if some are offline.
            self._services.request_batch.add_leader_and_isr_request(
                assignment.adding_replicas, partition, is_new=True
            )
        for partition, error in changes.failed.items():
            log.error("Failed to update the leader epoch of %s: %r", partition, error)

    # Completion

    async def _find_complete(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Read the ISR from the store, because brokers of old versions change it there directly."""
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
        # Send before the znode drops the removed replicas, as in _start_reassignments.
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
        """Write the target replicas to the topics' znodes, which ends the reassignments."""
        failed = await self._services.writer.update_assignments(final_assignments)
        for topic, error in failed.items():
            log.error(
                "Failed to write the completed reassignment of topic %s to the store: %r",
                topic,
                error,
            )
        for partition, assignment in final_assignments.items():
            log.info("Completed reassignment of %s to %s", partition, list(assignment.replicas))
            self._context.partitions_being_reassigned.discard(partition)
        await self._topic_deletion_manager.resume_deletion_for_topics(
            sorted({partition.topic for partition in final_assignments})
        )
        return failed
