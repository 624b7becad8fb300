"""Changes of the registered brokers and their effects on partitions and replicas.

    added      The broker receives the full metadata, then its replicas.  Partitions without a
               leader may get one.  Reassignments and deletions that waited for the broker resume.
    removed    Other brokers become leaders of its partitions.  It leaves every ISR.
    bounced    The broker has a new registration, so a new epoch.  It counts as removed and added.
    modified   Endpoints or features of a registration changed.  All brokers receive
               UpdateMetadata.
    rejected   The broker lacks a finalized feature, or a listener that the other brokers use.  The
               controller treats it as not registered, because it cannot send it any request.

Difference to Kafka: there a single broker without the required listeners prevents the failover of
the controller.  Here the controller only rejects that broker.  But if fewer than half of the
registered brokers have our listeners, our own listeners are wrong.  The controller would then treat
the replicas of these brokers as lost, so this broker resigns and another becomes the controller.

Kafka: KafkaController.processBrokerChange, processBrokerModification, onBrokerStartup,
onBrokerFailure.

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

log = logging.getLogger("kafka.controller")


class TopicDeletions(Protocol):
    """The interface of TopicDeletionManager that a broker start-up needs."""

    async def resume_deletion_for_topics(self, topics: Collection[str]) -> None: ...


class PartitionReassignments(Protocol):
    """The interface of PartitionReassignmentManager that a broker start-up needs."""

    async def maybe_resume_reassignments(self, broker_ids: Collection[int]) -> None: ...


@dataclass(frozen=True, slots=True)
class ResumableWork:
    """The work that may resume when a broker starts."""

    topic_deletion_manager: TopicDeletions
    partition_reassignment_manager: PartitionReassignments


class ListenerMismatch(Exception):
    """Most registered brokers lack the listeners of this broker."""


@dataclass(frozen=True, slots=True)
class BrokerRequirements:
    """The features and listeners that the controller requires of a broker."""

    features: ClusterFeatures
    has_required_listeners: Callable[[BrokerRegistration], bool]

    def rejection_reason(self, registration: BrokerRegistration) -> str | None:
        if not self.has_required_listeners(registration):
            return "does not have the listeners that brokers use to connect to each other"
        if not self.features.are_supported_by(registration):
            return "does not support the finalized features of the cluster"
        return None


class BrokerChanges:
    """The brokers that the controller accepts, and the channels to them."""

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
        #: (broker id, broker epoch) -> reason, so that each rejection is logged once.
        self._rejected_brokers: dict[tuple[int, int], str] = {}

    async def load(self) -> None:
        """Read the registered brokers during failover, before any other state is loaded."""
        for broker in (await self._read_accepted_brokers()).values():
            self._add_broker(broker)
        log.info(
            "Initializing controller context: registered brokers %s", sorted(self._context.brokers)
        )

    async def process_broker_change(self) -> None:
        """Compare the registered brokers with the known ones and handle the differences."""
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
            log.info(
                "Newly added brokers: %s, deleted brokers: %s, bounced brokers: %s",
                added,
                removed,
                bounced,
            )
        # Failures first: otherwise an election could choose a removed broker.
        if removed or bounced:
            await self._on_broker_failure([*removed, *bounced])
        if added or bounced:
            await self._on_broker_startup(
                [current_brokers[broker_id] for broker_id in sorted([*added, *bounced])]
            )

    async def process_broker_modification(self, broker_id: int) -> None:
        """Handle a changed registration.  process_broker_change handles new epochs."""
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
            log.info(
                "Updated broker metadata: broker %d has endpoints %s",
                broker_id,
                ", ".join(map(str, after.endpoints)),
            )
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
            log.error(
                "Ignoring broker %d: it %s. It receives no requests and leads no partitions",
                broker.id,
                reason,
            )
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
        # Send before LeaderAndIsr: a broker follows only leaders that it knows.
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
            log.info(
                "Some replicas for topics scheduled for deletion %s are on the newly restarted "
                "brokers. Signaling restart of topic deletion for these topics",
                sorted(topics),
            )
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
