"""In-sync replicas change: leaders ask for it, and the controller writes it.

A leader asks by AlterPartition, naming the epochs that it builds on.  What it asks for is refused
if it is not the leader any more or knows less than the controller, and if a replica that is not
alive, or has begun another life, would be in sync; what is so already is answered as done, since
the answer may have been lost.  What was changed, all brokers are told.

Brokers that speak a version before 2.7 write to the store themselves and leave a notification.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from odradek.controller.controller_context import ControllerContext
from odradek.controller.controller_services import ControllerServices
from odradek.controller.leader_and_isr import LeaderIsrAndControllerEpoch
from odradek.controller.store import paths
from odradek.controller.store.base import Watch
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, StaleBrokerEpoch, UnknownTopicOrPartition
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)

#: Of a broker whose fetches do not tell; Kafka's leaders on ZooKeeper never do.
UNKNOWN_BROKER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class ProposedLeaderAndIsr:
    """What a leader wants of one partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    is_recovering: bool
    #: Whether the leader knows what an ineligible replica is.
    supports_ineligible_replica: bool
    #: Those of in-sync replicas, as far as the leader knows them; see ``UNKNOWN_EPOCH``.
    broker_epochs: Mapping[int, int] = field(default_factory=dict)


AlterPartitionResults = dict[TopicPartition, LeaderIsrAndControllerEpoch | KafkaError]


class IsrChanges:
    """``watch`` is for what brokers have changed themselves."""

    def __init__(self, services: ControllerServices, watch: Watch) -> None:
        self._services = services
        self._context = services.context
        self._watch = watch

    def check_broker_epoch(self, broker_id: int, *, broker_epoch: int) -> None:
        broker = self._context.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch:
            log.info("Broker %d asks to alter partitions in epoch %d", broker_id, broker_epoch)
            raise StaleBrokerEpoch

    async def process_alter_partition(
        self, proposals: Mapping[TopicPartition, ProposedLeaderAndIsr]
    ) -> AlterPartitionResults:
        """What each partition is now, or why it is not what was proposed."""
        results: AlterPartitionResults = {}
        accepted: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        for partition, proposal in proposals.items():
            result = self._decide(partition, proposal)
            if (
                isinstance(result, KafkaError)
                or result is self._context.partition_leadership_info[partition]
            ):
                results[partition] = result
            else:
                accepted[partition] = result
        results |= await self._write(accepted)
        return results

    def _decide(
        self, partition: TopicPartition, proposal: ProposedLeaderAndIsr
    ) -> LeaderIsrAndControllerEpoch | KafkaError:
        current = self._context.partition_leadership_info.get(partition)
        if current is None:
            return UnknownTopicOrPartition()
        error = proposal_error(current, proposal, self._context, partition)
        if error is not None:
            log.info("%s of %s is refused: %s", proposal, partition, error)
            return error
        if is_already_applied(current, proposal):
            return current
        return replace(current, isr=proposal.isr, is_recovering=proposal.is_recovering)

    async def _write(
        self, accepted: Mapping[TopicPartition, LeaderIsrAndControllerEpoch]
    ) -> AlterPartitionResults:
        update_result = await self._services.writer.update_leader_and_isr(accepted)
        self._update_context(update_result.finished)
        results: AlterPartitionResults = dict(update_result.finished)
        for partition, error in update_result.failed.items():
            log.error("The in-sync replicas of %s could not be written: %r", partition, error)
            results[partition] = KafkaError()
        if update_result.to_retry:
            current_states = await self._services.reader.get_topic_partition_states(
                update_result.to_retry
            )
            self._update_context(current_states)
            for partition in update_result.to_retry:
                current = current_states.get(partition)
                is_own_write = current is not None and _is_own_write(
                    current, accepted[partition], self._context
                )
                results[partition] = (
                    current if current and is_own_write else _invalid_update_version()
                )
        return results

    def _update_context(
        self, leader_and_isrs: Mapping[TopicPartition, LeaderIsrAndControllerEpoch]
    ) -> None:
        """What the store has, for us and for all brokers."""
        if leader_and_isrs:
            self._context.partition_leadership_info.update(leader_and_isrs)
            self._services.request_batch.add_update_metadata_request(leader_and_isrs)

    # Notifications

    async def delete_isr_change_notifications(self) -> None:
        """Of before: everything is read anyway when a controller begins."""
        await self._delete_notifications(
            await self._services.reader.get_isr_change_notifications(self._watch)
        )

    async def process_isr_change_notification(self) -> tuple[TopicPartition, ...]:
        """Learn what brokers have written themselves; of which partitions."""
        notifications = await self._services.reader.get_isr_change_notifications(self._watch)
        partitions = {
            partition: None
            for notified_partitions in notifications.values()
            for partition in notified_partitions
            if self._context.has_partition(partition)
        }
        self._update_context(await self._services.reader.get_topic_partition_states(partitions))
        await self._delete_notifications(notifications)
        return tuple(partitions)

    async def _delete_notifications(self, names: Iterable[str]) -> None:
        await self._services.writer.delete_notifications(paths.ISR_CHANGES, names)


# Decisions, which are pure


def proposal_error(
    current: LeaderIsrAndControllerEpoch,
    proposal: ProposedLeaderAndIsr,
    context: ControllerContext,
    partition: TopicPartition,
) -> KafkaError | None:
    return _epoch_error(current, proposal) or (
        None
        if is_already_applied(current, proposal)
        else _change_error(current, proposal, context, partition)
    )


def is_already_applied(
    current: LeaderIsrAndControllerEpoch, proposal: ProposedLeaderAndIsr
) -> bool:
    """Perhaps since an earlier version of the partition than the leader knows of."""
    return (
        proposal.leader == current.leader
        and proposal.leader_epoch == current.leader_epoch
        and proposal.isr == current.isr
        and proposal.is_recovering == current.is_recovering
        and proposal.partition_epoch <= current.partition_epoch
    )


def _epoch_error(
    current: LeaderIsrAndControllerEpoch, proposal: ProposedLeaderAndIsr
) -> KafkaError | None:
    is_newer = (
        proposal.partition_epoch > current.partition_epoch
        or proposal.leader_epoch > current.leader_epoch
    )
    if is_newer:
        # It has heard of a newer controller than we are, and should look for that.
        return KafkaError(error_code=ErrorCode.NOT_CONTROLLER)
    if proposal.leader_epoch < current.leader_epoch:
        return KafkaError(error_code=ErrorCode.FENCED_LEADER_EPOCH)
    return None


def _change_error(
    current: LeaderIsrAndControllerEpoch,
    proposal: ProposedLeaderAndIsr,
    context: ControllerContext,
    partition: TopicPartition,
) -> KafkaError | None:
    if proposal.partition_epoch < current.partition_epoch:
        return _invalid_update_version()
    if proposal.is_recovering and (len(proposal.isr) > 1 or not current.is_recovering):
        return KafkaError(error_code=ErrorCode.INVALID_REQUEST)
    if not context.live_broker_ids.issuperset(proposal.isr) or _has_stale_broker_epoch(
        proposal, context
    ):
        ineligible, unknown = ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED
        return KafkaError(
            error_code=ineligible if proposal.supports_ineligible_replica else unknown
        )
    # Kafka takes a leader's word for these; whoever does not lead could be made leader by them.
    is_valid = proposal.leader == current.leader and proposal.leader in proposal.isr
    if not is_valid or not set(proposal.isr).issubset(context.assignment(partition).replicas):
        return KafkaError(error_code=ErrorCode.INVALID_REQUEST)
    return None


def _has_stale_broker_epoch(proposal: ProposedLeaderAndIsr, context: ControllerContext) -> bool:
    """Whether one has started again since it had caught up, and may have lost that (KIP-903)."""
    return any(
        epoch not in (UNKNOWN_BROKER_EPOCH, context.brokers[broker].epoch)
        for broker, epoch in proposal.broker_epochs.items()
    )


def _invalid_update_version() -> KafkaError:
    return KafkaError(error_code=ErrorCode.INVALID_UPDATE_VERSION)


def _is_own_write(
    current: LeaderIsrAndControllerEpoch,
    intended: LeaderIsrAndControllerEpoch,
    context: ControllerContext,
) -> bool:
    """Whether it was we who wrote it, and the answer was lost."""
    next_epoch = intended.partition_epoch + 1
    return current == replace(intended, controller_epoch=context.epoch, partition_epoch=next_epoch)
