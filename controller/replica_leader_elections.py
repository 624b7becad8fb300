"""Elections that nobody died for: people ask for them, or too many partitions are led by others.

    preferred   the first replica of a partition shall lead again
    unclean     a partition without a leader shall have one, though it was not in sync

Both can be asked for by a request; the first also by the node /admin/preferred_replica_election,
which is taken away when that is done.  From time to time the first is done without being asked, for
every broker of whose partitions more than the given part is led by others.

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

log = logging.getLogger(__name__)


class ElectionType(Enum):
    """As a request numbers them."""

    PREFERRED = 0
    UNCLEAN = 1


#: The leader that was elected, or why none was.
ElectionResults = dict[TopicPartition, int | KafkaError]


class ReplicaLeaderElections:
    """Moves leaders back where they belong."""

    def __init__(self, services: ControllerServices, watch: Watch) -> None:
        self._services = services
        self._context = services.context
        self._watch = watch

    async def process_replica_leader_election(
        self, election_type: ElectionType, partitions: Iterable[TopicPartition] | None
    ) -> ElectionResults:
        """Of all partitions if none are named; then those that need nothing are left out."""
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
        """Do what the node asks for, if it is there, and take it away."""
        reader = self._services.reader
        requested = await reader.get_preferred_replica_election(self._watch)
        if requested is None:
            return
        log.info("%d partitions shall have their preferred leaders", len(requested))
        await self.process_replica_leader_election(ElectionType.PREFERRED, requested)
        await self._services.writer.delete_preferred_replica_election()

    async def check_and_trigger_auto_leader_rebalance(self, *, percentage: int) -> None:
        """Give brokers back what prefers them, where others lead more than ``percentage`` of it."""
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
                log.info("Broker %d is given back %d partitions to lead", broker, len(candidates))
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
        return None if is_needed else ElectionNotNeeded("It is led as it should be.")

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
