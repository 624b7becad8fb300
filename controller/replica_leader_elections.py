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

from odradek.controller.leader_election import Occasion
from odradek.controller.leadership import NO_LEADER
from odradek.controller.leadership_changes import StateChangeFailed
from odradek.controller.machinery import Machinery
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


class ElectionKind(Enum):
    """As a request numbers them."""

    PREFERRED = 0
    UNCLEAN = 1


#: The leader that was elected, or why none was.
ElectionResults = dict[TopicPartition, int | KafkaError]


class PreferredLeaders:
    """Moves leaders back where they belong."""

    def __init__(self, machinery: Machinery, watch: Watch) -> None:
        self._machinery = machinery
        self._context = machinery.context
        self._watch = watch

    async def elect(
        self, kind: ElectionKind, partitions: Iterable[TopicPartition] | None
    ) -> ElectionResults:
        """Of all partitions if none are named; then those that need nothing are left out."""
        asked = self._staying() if partitions is None else [*partitions]
        refused = {each: why for each in asked if (why := self._refused(kind, each))}
        wanted = [each for each in asked if each not in refused]
        results: ElectionResults = {**refused, **await self._elected(kind, wanted)}
        if partitions is not None:
            return results
        return {
            each: result
            for each, result in results.items()
            if not isinstance(result, ElectionNotNeeded)
        }

    async def look(self) -> None:
        """Do what the node asks for, if it is there, and take it away."""
        reads = self._machinery.reads
        asked = await reads.preferred_elections(self._watch)
        if asked is None:
            return
        log.info("%d partitions shall have their preferred leaders", len(asked))
        await self.elect(ElectionKind.PREFERRED, asked)
        await self._machinery.writes.delete_preferred_elections()

    async def balance(self, *, percentage: int) -> None:
        """Give brokers back what prefers them, where others lead more than ``percentage`` of it."""
        preferring: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for partition in self._staying():
            replicas = self._context.assignment(partition).replicas
            if replicas:
                preferring[replicas[0]].append(partition)
        for broker, partitions in preferring.items():
            elsewhere = [
                each for each in partitions if self._context.leader(each) not in (None, broker)
            ]
            if len(elsewhere) * 100 > percentage * len(partitions):
                able = [each for each in elsewhere if self._is_able(broker, each)]
                log.info("Broker %d is given back %d partitions to lead", broker, len(able))
                await self._elected(ElectionKind.PREFERRED, able)

    def _staying(self) -> list[TopicPartition]:
        to_delete = self._context.to_delete
        return [each for each in self._context.partitions if each.topic not in to_delete]

    def _is_able(self, broker: int, partition: TopicPartition) -> bool:
        in_sync = self._context.leaderships[partition].isr
        return broker in in_sync and self._context.is_online(broker, partition)

    def _refused(self, kind: ElectionKind, partition: TopicPartition) -> KafkaError | None:
        if not self._context.has_partition(partition):
            return UnknownTopicOrPartition("The partition does not exist.")
        if partition.topic in self._context.to_delete:
            deleted = "The topic is being deleted."
            return KafkaError(deleted, error=ErrorCode.INVALID_TOPIC_EXCEPTION)
        leader = self._context.leader(partition)
        if kind is ElectionKind.PREFERRED:
            is_needed = leader != self._context.assignment(partition).replicas[0]
        else:
            is_needed = leader in (None, NO_LEADER) or leader not in self._context.live_brokers
        return None if is_needed else ElectionNotNeeded("It is led as it should be.")

    async def _elected(
        self, kind: ElectionKind, partitions: Iterable[TopicPartition]
    ) -> ElectionResults:
        is_unclean = kind is ElectionKind.UNCLEAN
        occasion = Occasion.OFFLINE if is_unclean else Occasion.PREFERRED
        refusal = EligibleLeadersNotAvailable if is_unclean else PreferredLeaderNotAvailable
        moved = await self._machinery.partitions.move(
            partitions, PartitionState.ONLINE, occasion, allows_unclean=is_unclean
        )
        return {
            partition: refusal(str(result))
            if isinstance(result, StateChangeFailed)
            else result.leader
            for partition, result in moved.items()
        }
