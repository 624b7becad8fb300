"""Changes the states of replicas.  Kafka: ZkReplicaStateMachine.

Each transition changes the store first, then the controller context, then the request batch.

    NEW                    LeaderAndIsr to its broker, if the partition has a leader
    NEW -> ONLINE          only the state changes: its broker has LeaderAndIsr already
    ONLINE                 LeaderAndIsr to its broker again
    OFFLINE                StopReplica to its broker; the replica leaves the ISR, unless it is the
                           last member, and is no longer the leader; LeaderAndIsr to the others
    DELETION_STARTED       StopReplica with deletion to its broker
    DELETION_SUCCESSFUL,
    DELETION_INELIGIBLE    only the state changes
    NON_EXISTENT           the replica is removed from the context

A transition that the table of valid transitions does not contain is rejected and logged.  A failed
replica keeps its state; the other replicas still change.  This module sends nothing: it adds the
requests for the brokers to the ControllerBrokerRequestBatch.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Set

from odradek.controller.controller_context import ControllerContext, PartitionAndReplica
from odradek.controller.leader_and_isr import NO_LEADER, LeaderIsrAndControllerEpoch
from odradek.controller.leader_and_isr_updater import (
    LeaderAndIsrByPartition,
    LeaderAndIsrUpdater,
    StateChangeFailed,
    log_failures,
)
from odradek.controller.metadata_reader import MetadataReader
from odradek.controller.metadata_writer import MetadataWriter
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.replica_state import VALID_TRANSITIONS, ReplicaState
from odradek.controller.request_batch import ControllerBrokerRequestBatch
from odradek.controller.store.base import NoNode
from odradek.protocol.types import TopicPartition

log = logging.getLogger("state.change.logger")

Failures = dict[PartitionAndReplica, StateChangeFailed]


class ReplicaStateMachine:
    """Changes the states of replicas.  Invariant: no other class does."""

    def __init__(
        self,
        context: ControllerContext,
        reader: MetadataReader,
        writer: MetadataWriter,
        request_batch: ControllerBrokerRequestBatch,
    ) -> None:
        self._context = context
        self._request_batch = request_batch
        self._leader_and_isr_updater = LeaderAndIsrUpdater(context, reader, writer)

    async def start(self) -> None:
        """Set the initial state of all replicas.

        Offline replicas are ineligible for deletion until their brokers are back, whether or not
        their topics are being deleted.
        """
        online: list[PartitionAndReplica] = []
        offline: list[PartitionAndReplica] = []
        for partition in self._context.partitions:
            for replica in self._context.replicas_for_partition(partition):
                is_online = self._context.is_replica_online(replica.broker_id, partition)
                (online if is_online else offline).append(replica)
        self._put_replica_states(online, ReplicaState.ONLINE)
        self._put_replica_states(offline, ReplicaState.DELETION_INELIGIBLE)
        await self.handle_state_changes(online, ReplicaState.ONLINE)
        await self.handle_state_changes(offline, ReplicaState.OFFLINE)

    async def handle_state_changes(
        self, replicas: Iterable[PartitionAndReplica], target_state: ReplicaState
    ) -> None:
        valid, failed = self._check_valid_state_changes(replicas, target_state)
        match target_state:
            case ReplicaState.NEW:
                failed |= self._start_new_replicas(valid)
            case ReplicaState.ONLINE:
                self._bring_online(valid)
            case ReplicaState.OFFLINE:
                failed |= await self._take_offline(valid)
            case ReplicaState.DELETION_STARTED:
                self._put_replica_states(valid, target_state)
                for replica in valid:
                    self._request_batch.add_stop_replica_request(replica, delete_partition=True)
            case ReplicaState.DELETION_SUCCESSFUL | ReplicaState.DELETION_INELIGIBLE:
                self._put_replica_states(valid, target_state)
            case ReplicaState.NON_EXISTENT:
                self._remove_replicas(valid)
        log_failures(log, f"Failed to change replicas to {target_state.name}", failed)

    def _check_valid_state_changes(
        self, replicas: Iterable[PartitionAndReplica], target_state: ReplicaState
    ) -> tuple[list[PartitionAndReplica], Failures]:
        valid: list[PartitionAndReplica] = []
        invalid: Failures = {}
        for replica in dict.fromkeys(replicas):
            state = self._context.replica_state(replica)
            if target_state in VALID_TRANSITIONS[state]:
                valid.append(replica)
            else:
                invalid[replica] = StateChangeFailed(f"illegal state change from {state.name}")
        return valid, invalid

    def _put_replica_states(
        self, replicas: Iterable[PartitionAndReplica], state: ReplicaState
    ) -> None:
        self._context.replica_states.update(dict.fromkeys(replicas, state))

    def _start_new_replicas(self, replicas: Iterable[PartitionAndReplica]) -> Failures:
        failed: Failures = {}
        for replica in replicas:
            leader = self._context.leader(replica.partition)
            if leader == replica.broker_id:
                failed[replica] = StateChangeFailed(
                    "it is the leader and cannot become a new replica"
                )
                continue
            if leader is not None:
                self._request_batch.add_leader_and_isr_request(
                    [replica.broker_id], replica.partition, is_new=True
                )
            self._put_replica_states([replica], ReplicaState.NEW)
        return failed

    def _bring_online(self, replicas: Iterable[PartitionAndReplica]) -> None:
        for replica in replicas:
            partition, broker = replica
            if self._context.replica_state(replica) is ReplicaState.NEW:
                self._add_to_assignment(partition, broker)
            elif self._context.leader(partition) is not None:
                self._request_batch.add_leader_and_isr_request([broker], partition)
            self._put_replica_states([replica], ReplicaState.ONLINE)

    def _add_to_assignment(self, partition: TopicPartition, broker_id: int) -> None:
        current = self._context.assignment(partition)
        if broker_id not in current.replicas:
            log.error(
                "Adding replica %d to the assignment of %s, which does not contain it: %s",
                broker_id,
                partition,
                current,
            )
            replicas = (*current.replicas, broker_id)
            self._context.update_assignment(
                partition,
                ReplicaAssignment(replicas, current.adding_replicas, current.removing_replicas),
            )

    def _remove_replicas(self, replicas: Iterable[PartitionAndReplica]) -> None:
        for partition, broker in replicas:
            self._context.update_assignment(
                partition, self._context.assignment(partition).remove_replica(broker)
            )
            self._context.replica_states.pop(PartitionAndReplica(partition, broker), None)

    # Offline replicas

    async def _take_offline(self, replicas: Collection[PartitionAndReplica]) -> Failures:
        offline_ids: dict[TopicPartition, set[int]] = {}
        for replica in replicas:
            self._request_batch.add_stop_replica_request(replica, delete_partition=False)
            offline_ids.setdefault(replica.partition, set()).add(replica.broker_id)
        with_leader = {
            each: None for each in offline_ids if each in self._context.partition_leadership_info
        }

        async def decide(current: LeaderAndIsrByPartition) -> LeaderAndIsrByPartition:
            return {
                each: _remove_replicas_from_isr(current[each], offline_ids[each])
                for each in current
            }

        changes = await self._leader_and_isr_updater.update(with_leader, decide)
        failed = {
            PartitionAndReplica(partition, broker): StateChangeFailed(repr(error))
            for partition, error in changes.failed.items()
            for broker in sorted(offline_ids[partition])
            # The znodes of a topic that is being deleted may be gone already.
            if partition.topic not in self._context.topics_to_be_deleted
            or not isinstance(error, NoNode)
        }
        self._put_replica_states(
            (each for each in replicas if each not in failed), ReplicaState.OFFLINE
        )
        for partition in changes.finished:
            if partition.topic not in self._context.topics_to_be_deleted:
                assigned = self._context.assignment(partition).replicas
                others = [each for each in assigned if each not in offline_ids[partition]]
                self._request_batch.add_leader_and_isr_request(others, partition)
        if leaderless := [each for each in offline_ids if each not in with_leader]:
            self._request_batch.add_update_metadata_request(leaderless)
        return failed


def _remove_replicas_from_isr(
    current: LeaderIsrAndControllerEpoch, replica_ids: Set[int]
) -> LeaderIsrAndControllerEpoch:
    """Remove replicas from the ISR; the last member stays even if it goes offline.

    With an empty ISR no replica could become the leader again without losing records.  The leader
    epoch is incremented if a member of the ISR goes offline, as in Kafka, even if the leader and
    the ISR stay the same.
    """
    if current.leader not in replica_ids and replica_ids.isdisjoint(current.isr):
        return current
    isr = tuple(each for each in current.isr if each not in replica_ids)
    if not isr:
        isr = (current.leader,) if current.leader in current.isr else current.isr[:1]
    leader = NO_LEADER if current.leader in replica_ids else current.leader
    return current.new_leader_and_isr(leader, isr, is_recovering=current.is_recovering)
