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

from odradek.controller.context import Context
from odradek.controller.leadership import Leadership
from odradek.controller.machinery import Machinery
from odradek.controller.store import paths
from odradek.controller.store.base import Watch
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, StaleBrokerEpoch, UnknownTopicOrPartition
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)

#: Of a broker whose fetches do not tell; Kafka's leaders on ZooKeeper never do.
UNKNOWN_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a leader wants of one partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    is_recovering: bool
    #: Whether the leader knows what an ineligible replica is.
    knows_ineligible: bool
    #: Those of in-sync replicas, as far as the leader knows them; see ``UNKNOWN_EPOCH``.
    broker_epochs: Mapping[int, int] = field(default_factory=dict)


Altered = dict[TopicPartition, Leadership | KafkaError]


class InSyncReplicas:
    """``watch`` is for what brokers have changed themselves."""

    def __init__(self, machinery: Machinery, watch: Watch) -> None:
        self._machinery = machinery
        self._context = machinery.context
        self._watch = watch

    def check_broker(self, broker: int, *, broker_epoch: int) -> None:
        known = self._context.brokers.get(broker)
        if known is None or known.epoch != broker_epoch:
            log.info("Broker %d asks to alter partitions in epoch %d", broker, broker_epoch)
            raise StaleBrokerEpoch

    async def alter(self, proposals: Mapping[TopicPartition, Proposal]) -> Altered:
        """What each partition is now, or why it is not what was proposed."""
        altered: Altered = {}
        accepted: dict[TopicPartition, Leadership] = {}
        for partition, proposal in proposals.items():
            decided = self._decide(partition, proposal)
            if isinstance(decided, KafkaError) or decided is self._context.leaderships[partition]:
                altered[partition] = decided
            else:
                accepted[partition] = decided
        altered |= await self._write(accepted)
        return altered

    def _decide(self, partition: TopicPartition, proposal: Proposal) -> Leadership | KafkaError:
        current = self._context.leaderships.get(partition)
        if current is None:
            return UnknownTopicOrPartition()
        refusal = refused(current, proposal, self._context, partition)
        if refusal is not None:
            log.info("%s of %s is refused: %s", proposal, partition, refusal)
            return refusal
        if is_so_already(current, proposal):
            return current
        return replace(current, isr=proposal.isr, is_recovering=proposal.is_recovering)

    async def _write(self, accepted: Mapping[TopicPartition, Leadership]) -> Altered:
        written = await self._machinery.writes.update_leaderships(accepted)
        self._note(written.done)
        altered: Altered = dict(written.done)
        for partition, failure in written.failed.items():
            log.error("The in-sync replicas of %s could not be written: %r", partition, failure)
            altered[partition] = KafkaError()
        if written.outdated:
            found = await self._machinery.reads.leaderships(written.outdated)
            self._note(found)
            for partition in written.outdated:
                now = found.get(partition)
                is_ours = now is not None and _is_written(now, accepted[partition], self._context)
                altered[partition] = now if now and is_ours else _outdated()
        return altered

    def _note(self, leaderships: Mapping[TopicPartition, Leadership]) -> None:
        """What the store has, for us and for all brokers."""
        if leaderships:
            self._context.leaderships.update(leaderships)
            self._machinery.batch.update_metadata(leaderships)

    # Notifications

    async def forget_notifications(self) -> None:
        """Of before: everything is read anyway when a controller begins."""
        await self._delete(await self._machinery.reads.isr_changes(self._watch))

    async def look(self) -> tuple[TopicPartition, ...]:
        """Learn what brokers have written themselves; of which partitions."""
        notified = await self._machinery.reads.isr_changes(self._watch)
        partitions = {
            partition: None
            for each in notified.values()
            for partition in each
            if self._context.has_partition(partition)
        }
        self._note(await self._machinery.reads.leaderships(partitions))
        await self._delete(notified)
        return tuple(partitions)

    async def _delete(self, names: Iterable[str]) -> None:
        await self._machinery.writes.delete_notifications(paths.ISR_CHANGES, names)


# Decisions, which are pure


def refused(
    current: Leadership, proposal: Proposal, context: Context, partition: TopicPartition
) -> KafkaError | None:
    return _refused_by_epoch(current, proposal) or (
        None
        if is_so_already(current, proposal)
        else _refused_change(current, proposal, context, partition)
    )


def is_so_already(current: Leadership, proposal: Proposal) -> bool:
    """Perhaps since an earlier version of the partition than the leader knows of."""
    return (
        proposal.leader == current.leader
        and proposal.leader_epoch == current.leader_epoch
        and proposal.isr == current.isr
        and proposal.is_recovering == current.is_recovering
        and proposal.partition_epoch <= current.partition_epoch
    )


def _refused_by_epoch(current: Leadership, proposal: Proposal) -> KafkaError | None:
    knows_more = (
        proposal.partition_epoch > current.partition_epoch
        or proposal.leader_epoch > current.leader_epoch
    )
    if knows_more:
        # It has heard of a newer controller than we are, and should look for that.
        return KafkaError(error=ErrorCode.NOT_CONTROLLER)
    if proposal.leader_epoch < current.leader_epoch:
        return KafkaError(error=ErrorCode.FENCED_LEADER_EPOCH)
    return None


def _refused_change(
    current: Leadership, proposal: Proposal, context: Context, partition: TopicPartition
) -> KafkaError | None:
    if proposal.partition_epoch < current.partition_epoch:
        return _outdated()
    if proposal.is_recovering and (len(proposal.isr) > 1 or not current.is_recovering):
        return KafkaError(error=ErrorCode.INVALID_REQUEST)
    if not context.live_brokers.issuperset(proposal.isr) or _are_of_the_past(proposal, context):
        ineligible, unknown = ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED
        return KafkaError(error=ineligible if proposal.knows_ineligible else unknown)
    # Kafka takes a leader's word for these; whoever does not lead could be made leader by them.
    is_sound = proposal.leader == current.leader and proposal.leader in proposal.isr
    if not is_sound or not set(proposal.isr).issubset(context.assignment(partition).replicas):
        return KafkaError(error=ErrorCode.INVALID_REQUEST)
    return None


def _are_of_the_past(proposal: Proposal, context: Context) -> bool:
    """Whether one has started again since it had caught up, and may have lost that (KIP-903)."""
    return any(
        epoch not in (UNKNOWN_EPOCH, context.brokers[broker].epoch)
        for broker, epoch in proposal.broker_epochs.items()
    )


def _outdated() -> KafkaError:
    return KafkaError(error=ErrorCode.INVALID_UPDATE_VERSION)


def _is_written(now: Leadership, meant: Leadership, context: Context) -> bool:
    """Whether it was we who wrote it, and the answer was lost."""
    next_epoch = meant.partition_epoch + 1
    return now == replace(meant, controller_epoch=context.epoch, partition_epoch=next_epoch)
