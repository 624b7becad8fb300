"""Leader elections on request, and the automatic rebalance of leaders.

    preferred   the first replica of a partition becomes the leader again
    unclean     a partition without a live leader gets one that may not be in the ISR

Kafka: KafkaController.processReplicaLeaderElection, processZkPreferredReplicaElection and
checkAndTriggerAutoLeaderRebalance.  An ElectLeaders request can start both types.  The znode
/admin/preferred_replica_election can start a preferred election; the controller deletes the znode
afterwards.  The automatic rebalance periodically starts a preferred election for each broker whose
imbalance exceeds leader.imbalance.per.broker.percentage.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum

from odradek.controller.controller_services import ControllerServices
from odradek.controller.leader_and_isr import NO_LEADER
from odradek.controller.leader_and_isr_updater import StateChangeFailed
from odradek.controller.leader_election import PartitionLeaderElectionStrategy
from odradek.controller.partition_state import PartitionState
from odradek.controller.store.base import Watch
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    KafkaError,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from odradek.protocol.types import TopicPartition

log = logging.getLogger("kafka.controller")


class ElectionType(Enum):
    """The election types, with their numbers in an ElectLeaders request."""

    PREFERRED = 0
    UNCLEAN = 1


#: For each partition the id of the elected leader, or the error.
ElectionResults = dict[TopicPartition, int | KafkaError]


class ReplicaLeaderElections:
    """Runs preferred and unclean leader elections."""

    def __init__(self, services: ControllerServices, watch: Watch) -> None:
        self._services = services
        self._context = services.context
        self._watch = watch

    async def process_replica_leader_election(
        self, election_type: ElectionType, partitions: Iterable[TopicPartition] | None
    ) -> ElectionResults:
        """Elect leaders for these partitions, or for all partitions if None.

        For all partitions, the result omits those that need no election.
        """
        requested = self._partitions_not_being_deleted() if partitions is None else [*partitions]
        rejected = {
            each: error
            for each in requested
            if (error := self._election_error(election_type, each))
        }
        accepted = [each for each in requested if each not in rejected]
        results: ElectionResults = {
            **rejected,
            **await self._on_replica_election(election_type, accepted),
        }
        if partitions is not None:
            return results
        return {
            each: result
            for each, result in results.items()
            if not isinstance(result, ElectionNotNeeded)
        }

    async def process_preferred_replica_election(self) -> None:
        """Run the elections that the znode requests, if it exists, and delete it."""
        reader = self._services.reader
        requested = await reader.get_preferred_replica_election(self._watch)
        if requested is None:
            return
        log.info(
            "Starting replica leader election (PREFERRED) for %d partition(s) "
            "triggered by ZkTriggered",
            len(requested),
        )
        await self.process_replica_leader_election(ElectionType.PREFERRED, requested)
        await self._services.writer.delete_preferred_replica_election()

    async def check_and_trigger_auto_leader_rebalance(self, *, percentage: int) -> None:
        """Elect the preferred leaders of each broker that leads too few of its partitions.

        A broker is imbalanced if other brokers lead more than ``percentage`` percent of the
        partitions whose preferred leader it is.
        """
        partitions_by_preferred_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for partition in self._partitions_not_being_deleted():
            replicas = self._context.assignment(partition).replicas
            if replicas:
                partitions_by_preferred_leader[replicas[0]].append(partition)
        for broker, partitions in partitions_by_preferred_leader.items():
            imbalanced = [
                each for each in partitions if self._context.leader(each) not in (None, broker)
            ]
            if len(imbalanced) * 100 > percentage * len(partitions):
                candidates = [
                    each
                    for each in imbalanced
                    if self._can_preferred_replica_be_leader(broker, each)
                ]
                log.info(
                    "Starting replica leader election (PREFERRED) of broker %d for %d partition(s) "
                    "triggered by AutoTriggered",
                    broker,
                    len(candidates),
                )
                await self._on_replica_election(ElectionType.PREFERRED, candidates)

    def _partitions_not_being_deleted(self) -> list[TopicPartition]:
        to_delete = self._context.topics_to_be_deleted
        return [each for each in self._context.partitions if each.topic not in to_delete]

    def _can_preferred_replica_be_leader(self, broker_id: int, partition: TopicPartition) -> bool:
        isr = self._context.partition_leadership_info[partition].isr
        return broker_id in isr and self._context.is_replica_online(broker_id, partition)

    def _election_error(
        self, election_type: ElectionType, partition: TopicPartition
    ) -> KafkaError | None:
        if not self._context.has_partition(partition):
            return UnknownTopicOrPartition("The partition does not exist.")
        if partition.topic in self._context.topics_to_be_deleted:
            message = "The topic is being deleted."
            return KafkaError(message, error_code=ErrorCode.INVALID_TOPIC_EXCEPTION)
        leader = self._context.leader(partition)
        if election_type is ElectionType.PREFERRED:
            is_needed = leader != self._context.assignment(partition).replicas[0]
        else:
            is_needed = leader in (None, NO_LEADER) or leader not in self._context.live_broker_ids
        return None if is_needed else ElectionNotNeeded("Leader election not needed.")

    async def _on_replica_election(
        self, election_type: ElectionType, partitions: Iterable[TopicPartition]
    ) -> ElectionResults:
        is_unclean = election_type is ElectionType.UNCLEAN
        strategy = (
            PartitionLeaderElectionStrategy.OFFLINE_PARTITION
            if is_unclean
            else PartitionLeaderElectionStrategy.PREFERRED_REPLICA
        )
        error_type = EligibleLeadersNotAvailable if is_unclean else PreferredLeaderNotAvailable
        results = await self._services.partition_state_machine.handle_state_changes(
            partitions, PartitionState.ONLINE, strategy, allows_unclean=is_unclean
        )
        return {
            partition: error_type(str(result))
            if isinstance(result, StateChangeFailed)
            else result.leader
            for partition, result in results.items()
        }
