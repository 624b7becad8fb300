"""Brokers come, go, and return: who is registered, and what changes with it.

    joined     it gets the whole picture, then what it has replicas of; whoever waited for a leader
               may have one now; what waited for the broker goes on
    left       what it led is led by others, and it is in sync with nothing any more
    returned   by another registration than we know, so with another epoch: it left and joined
    changed    its registration has other endpoints or features; all are told
    refused    it lacks a feature of the cluster, or a listener by which brokers find each other: it
               is as if it were not there, since it could not be told what it leads

One broker that nobody finds must not keep the others from having a controller, as it does in Kafka.
But if we find fewer than half of those that are registered, it is we who are not found: what they
have would be taken for lost, so another is to be the controller.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from odradek.controller.controller_channel import ControllerChannelManager
from odradek.controller.controller_context import Broker
from odradek.controller.controller_services import ControllerServices
from odradek.controller.features import ClusterFeatures
from odradek.controller.offline_replicas import OfflineReplicaHandler
from odradek.controller.replica_state import ReplicaState
from odradek.controller.store.payloads.broker import BrokerRegistration
from odradek.controller.znode_change_handlers import ZNodeChangeHandlers

log = logging.getLogger(__name__)


class TopicDeletions(Protocol):
    """The part of the deletion of topics that a broker's return needs."""

    async def resume_deletion_for_topics(self, topics: Collection[str]) -> None: ...


class PartitionReassignments(Protocol):
    """The part of reassignments that a broker's return needs."""

    async def maybe_resume_reassignments(self, broker_ids: Collection[int]) -> None: ...


@dataclass(frozen=True, slots=True)
class ResumableWork:
    """What may go on when a broker joins."""

    topic_deletion_manager: TopicDeletions
    partition_reassignment_manager: PartitionReassignments


class ListenerMismatch(Exception):
    """Most brokers have other listeners than the controller."""


@dataclass(frozen=True, slots=True)
class BrokerRequirements:
    """What a broker must have; ``finds`` tells whether it has the listeners that we go to."""

    features: ClusterFeatures
    has_required_listeners: Callable[[BrokerRegistration], bool]

    def rejection_reason(self, registration: BrokerRegistration) -> str | None:
        if not self.has_required_listeners(registration):
            return "has not the listeners by which brokers find each other"
        if not self.features.are_supported_by(registration):
            return "does not support the features of the cluster"
        return None


class BrokerChanges:
    """The brokers that the controller works with, and the channels to them."""

    def __init__(
        self,
        services: ControllerServices,
        channel_manager: ControllerChannelManager,
        change_handlers: ZNodeChangeHandlers,
        requirements: BrokerRequirements,
        offline_replica_handler: OfflineReplicaHandler,
        resumable_work: ResumableWork,
    ) -> None:
        self._services = services
        self._context = services.context
        self._channel_manager = channel_manager
        self._change_handlers = change_handlers
        self._requirements = requirements
        self._offline_replica_handler = offline_replica_handler
        self._resumable_work = resumable_work
        #: Why, of those in this epoch, to say so once.
        self._rejected_brokers: dict[tuple[int, int], str] = {}

    async def load(self) -> None:
        """Note who is there, before anything else is known."""
        for broker in (await self._read_accepted_brokers()).values():
            self._add_broker(broker)
        log.info("Brokers %s are registered", sorted(self._context.brokers))

    async def process_broker_change(self) -> None:
        """Some may have come or gone."""
        known = self._context.brokers
        current_brokers = await self._read_accepted_brokers()
        added = sorted(current_brokers.keys() - known.keys())
        removed = sorted(known.keys() - current_brokers.keys())
        remaining = sorted(current_brokers.keys() & known.keys())
        bounced = [
            broker_id
            for broker_id in remaining
            if current_brokers[broker_id].epoch != known[broker_id].epoch
        ]
        if added or removed or bounced:
            log.info("Brokers: %s joined, %s left, %s returned", added, removed, bounced)
        # Those that left first, so that none of them is elected.
        if removed or bounced:
            await self._on_broker_failure([*removed, *bounced])
        if added or bounced:
            await self._on_broker_startup(
                [current_brokers[broker_id] for broker_id in sorted([*added, *bounced])]
            )

    async def process_broker_modification(self, broker_id: int) -> None:
        """Its registration may have changed; if it is another one, ``look`` will tell."""
        current = (
            await self._services.reader.get_brokers(
                [broker_id], self._change_handlers.on_broker_modifications
            )
        ).get(broker_id)
        known = self._context.brokers.get(broker_id)
        if current is not None and (known is None) == self._is_accepted(current):
            await self.process_broker_change()
            return
        if current is None or known is None or current.epoch != known.epoch:
            return
        before, after = known.registration, current.registration
        if (before.endpoints, before.features) != (after.endpoints, after.features):
            log.info("Broker %d is at %s now", broker_id, ", ".join(map(str, after.endpoints)))
            self._context.brokers[broker_id] = current
            self._services.request_batch.add_update_metadata_request()

    async def _read_accepted_brokers(self) -> dict[int, Broker]:
        reader = self._services.reader
        broker_ids = await reader.get_broker_ids(self._change_handlers.on_broker_change)
        brokers = await reader.get_brokers(
            sorted(broker_ids), self._change_handlers.on_broker_modifications
        )
        reachable = [
            broker
            for broker in brokers.values()
            if self._requirements.has_required_listeners(broker.registration)
        ]
        if 2 * len(reachable) < len(brokers):
            raise ListenerMismatch(
                f"only {len(reachable)} of {len(brokers)} registered brokers have our listeners"
            )
        return {broker.id: broker for broker in brokers.values() if self._is_accepted(broker)}

    def _is_accepted(self, broker: Broker) -> bool:
        reason = self._requirements.rejection_reason(broker.registration)
        broker_and_epoch = broker.id, broker.epoch
        if reason is None:
            self._rejected_brokers.pop(broker_and_epoch, None)
        elif self._rejected_brokers.get(broker_and_epoch) != reason:
            self._rejected_brokers[broker_and_epoch] = reason
            log.error("Broker %d %s: it is told nothing, and leads nothing", broker.id, reason)
        return reason is None

    def _add_broker(self, broker: Broker) -> None:
        self._context.brokers[broker.id] = broker
        self._channel_manager.add_broker(broker)

    async def _on_broker_startup(self, brokers: Collection[Broker]) -> None:
        services = self._services
        for broker in brokers:
            self._add_broker(broker)
        broker_ids = [broker.id for broker in brokers]
        services.request_batch.add_update_metadata_request()
        services.request_batch.add_full_update_metadata_request(broker_ids)
        # Brokers follow only leaders that they have heard of.
        services.request_batch.send_requests_to_brokers()
        replicas = [
            replica
            for broker_id in broker_ids
            for replica in self._context.replicas_on_broker(broker_id)
        ]
        await services.replica_state_machine.handle_state_changes(replicas, ReplicaState.ONLINE)
        await services.partition_state_machine.trigger_online_partition_state_change()
        await self._resumable_work.partition_reassignment_manager.maybe_resume_reassignments(
            broker_ids
        )
        topics = {
            replica.partition.topic for replica in replicas
        } & self._context.topics_to_be_deleted
        if topics:
            log.info("Topics %s may be deleted from brokers that are back", sorted(topics))
            await self._resumable_work.topic_deletion_manager.resume_deletion_for_topics(
                sorted(topics)
            )

    async def _on_broker_failure(self, broker_ids: Collection[int]) -> None:
        replicas = [
            replica
            for broker_id in broker_ids
            for replica in self._context.replicas_on_broker(broker_id)
        ]
        for broker_id in broker_ids:
            self._context.remove_broker(broker_id)
            self._channel_manager.remove_broker(broker_id)
        await self._offline_replica_handler.on_replicas_become_offline(replicas)
