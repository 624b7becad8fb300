"""Changes the ISR of partitions at the request of their leaders.

Kafka: KafkaController.processAlterPartition and processIsrChangeNotification.

A leader sends AlterPartition with the epochs that its proposal is based on.  The controller rejects
the proposal if the sender is no longer the leader, if it has older state than the controller, or if
the new ISR contains a replica that is not alive or has restarted since.  A proposal that is already
applied succeeds, because the response may have been lost.  All brokers receive each change.

With inter.broker.protocol.version below 2.7 leaders write to the store themselves and create a
notification.

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

log = logging.getLogger("kafka.controller")

#: For a follower whose fetches carry no broker epoch; Kafka's leaders on ZooKeeper send only this.
UNKNOWN_BROKER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class ProposedLeaderAndIsr:
    """The state of one partition that its leader requests."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    is_recovering: bool
    #: Whether the leader knows the error INELIGIBLE_REPLICA.
    supports_ineligible_replica: bool
    #: replica -> broker epoch, as the leader knows it; see ``UNKNOWN_BROKER_EPOCH``.
    broker_epochs: Mapping[int, int] = field(default_factory=dict)


AlterPartitionResults = dict[TopicPartition, LeaderIsrAndControllerEpoch | KafkaError]


class IsrChanges:
    """``watch`` is set on the notifications of brokers that write the ISR themselves."""

    def __init__(self, services: ControllerServices, watch: Watch) -> None:
        self._services = services
        self._context = services.context
        self._watch = watch

    def check_broker_epoch(self, broker_id: int, *, broker_epoch: int) -> None:
        broker = self._context.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch:
            log.info(
                "Rejecting AlterPartition from broker %d with stale broker epoch %d",
                broker_id,
                broker_epoch,
            )
            raise StaleBrokerEpoch

    async def process_alter_partition(
        self, proposals: Mapping[TopicPartition, ProposedLeaderAndIsr]
    ) -> AlterPartitionResults:
        """Return the current state of each partition, or the error of its proposal."""
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
            log.info("Rejecting AlterPartition %s for partition %s: %s", proposal, partition, error)
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
            log.error("Failed to update ISR for partition %s: %r", partition, error)
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
        """Copy the state of the store to the context, and send it to all brokers."""
        if leader_and_isrs:
            self._context.partition_leadership_info.update(leader_and_isrs)
            self._services.request_batch.add_update_metadata_request(leader_and_isrs)

    # Notifications

    async def delete_isr_change_notifications(self) -> None:
        """Delete old notifications: a new controller reads all partition states anyway."""
        await self._delete_notifications(
            await self._services.reader.get_isr_change_notifications(self._watch)
        )

    async def process_isr_change_notification(self) -> tuple[TopicPartition, ...]:
        """Read the states that brokers wrote themselves; return their partitions."""
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


# Pure decisions


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
    """The leader may know only an older partition epoch."""
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
        # The leader knows a newer controller than this one, and must send the request there.
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
    # Kafka does not check these; without the check any broker could make itself the leader.
    is_valid = proposal.leader == current.leader and proposal.leader in proposal.isr
    if not is_valid or not set(proposal.isr).issubset(context.assignment(partition).replicas):
        return KafkaError(error_code=ErrorCode.INVALID_REQUEST)
    return None


def _has_stale_broker_epoch(proposal: ProposedLeaderAndIsr, context: ControllerContext) -> bool:
    """Whether a replica has restarted since it caught up; it may have lost records (KIP-903)."""
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
    """Whether this controller wrote the current state, but the response was lost."""
    next_epoch = intended.partition_epoch + 1
    return current == replace(intended, controller_epoch=context.epoch, partition_epoch=next_epoch)
