"""The controller of a broker: elects partition leaders and informs the brokers.

Every broker has a KafkaController.  One of them is active; the others wait to replace it.  Watches,
requests and timers become events, and the controller processes one event after the other.  See
events.py for the events, event_handlers.py for their handlers, and controller_elector.py for
election and resignation.

    controller = KafkaController(store, identity, settings, environment)
    await controller.start()            # the session is open and the root nodes exist
    ...
    await controller.close()            # before the store is closed

While this broker is not the controller, requests are rejected with NotController.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Any

from odradek.controller import events
from odradek.controller.active_controller import ControllerDependencies, ControllerEnvironment
from odradek.controller.broker_changes import ListenerMismatch
from odradek.controller.controller_elector import ControllerElector
from odradek.controller.controller_event_manager import ControllerEventManager, EventPreempted
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.event_handlers import EVENT_HANDLERS
from odradek.controller.feature_updates import FeatureUpdate, FeatureUpdateResults
from odradek.controller.metadata_writer import ControllerMoved
from odradek.controller.reassignment_requests import ReassignmentResults, ReassignmentTargets
from odradek.controller.registration import BrokerIdentity
from odradek.controller.replica_assignment import ReplicaAssignment
from odradek.controller.replica_leader_elections import ElectionResults, ElectionType
from odradek.controller.store.base import MetadataStore, SessionExpired, SessionState
from odradek.controller.store.payloads.broker import BrokerRegistration
from odradek.controller.store.payloads.cluster import ProducerIdsBlock
from odradek.controller.znode_change_handlers import ZNodeChangeHandlers
from odradek.protocol.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.protocol.errors import NotController
from odradek.protocol.types import TopicPartition

log = logging.getLogger("kafka.controller")


class KafkaController:
    """The controller of one broker, whether it is active or not."""

    def __init__(
        self,
        store: MetadataStore,
        identity: BrokerIdentity,
        settings: ControllerSettings,
        environment: ControllerEnvironment,
    ) -> None:
        self._store = store
        self._broker_id = identity.broker_id
        self._settings = settings
        self._environment = environment
        self._event_manager = ControllerEventManager(self._process_event)
        change_handlers = ZNodeChangeHandlers(self._event_manager.put_if_absent)
        dependencies = ControllerDependencies(
            store,
            identity,
            lambda: self._settings,
            environment,
            self._event_manager,
            change_handlers,
        )
        self._elector = ControllerElector(dependencies)
        self._event_task: asyncio.Task[None] | None = None

    async def start(self, *, registration_timeout_s: float = 0) -> int:
        """Register the broker, start the election and return the broker epoch.

        Raises BrokerIdTaken if the id is still in use after ``registration_timeout_s``.
        """
        self._store.add_session_listener(self._on_session_state_change)
        epoch = await self._elector.register_broker(registration_timeout_s)
        self._event_manager.put(events.ControllerChange())
        self._event_task = self._environment.start_task(
            self._event_manager.run(), name="controller-events"
        )
        return epoch

    async def close(self) -> None:
        """Resign at once, even while an event is being processed."""
        if self._event_task is not None:
            self._event_task.cancel()
            await asyncio.wait([self._event_task])
        self._elector.resign()

    # State

    @property
    def is_active(self) -> bool:
        return self._elector.active_controller is not None

    @property
    def controller_id(self) -> int:
        """NO_CONTROLLER if there is no controller or its id is unknown."""
        return self._elector.controller_id

    @property
    def broker_epoch(self) -> int:
        return self._elector.registrar.epoch

    # Requests of brokers

    async def alter_partition(
        self, request: AlterPartitionRequest, *, version: int
    ) -> AlterPartitionResponse:
        response: AlterPartitionResponse = await self._submit(
            events.AlterPartitionReceived(request, version)
        )
        return response

    async def controlled_shutdown(
        self, broker_id: int, *, broker_epoch: int
    ) -> tuple[TopicPartition, ...]:
        """Return the partitions that the broker, which is shutting down, still leads.

        Only the ControlledShutdown handler maps NotController to STALE_CONTROLLER_EPOCH.
        """
        event = events.ControlledShutdown(broker_id, broker_epoch)
        remaining: tuple[TopicPartition, ...] = await self._submit(event)
        return remaining

    async def allocate_producer_ids(self, broker_id: int, *, broker_epoch: int) -> ProducerIdsBlock:
        event = events.AllocateProducerIds(broker_id, broker_epoch)
        block: ProducerIdsBlock = await self._submit(event)
        return block

    # Requests of administrators

    async def elect_leaders(
        self, election_type: ElectionType, partitions: Collection[TopicPartition] | None
    ) -> ElectionResults:
        """``partitions`` None selects all partitions that need an election."""
        requested = None if partitions is None else tuple(partitions)
        results: ElectionResults = await self._submit(
            events.ReplicaLeaderElection(election_type, requested)
        )
        return results

    async def alter_partition_reassignments(
        self, reassignments: ReassignmentTargets, *, allow_replication_factor_change: bool = True
    ) -> ReassignmentResults:
        """A target of None cancels the reassignment in progress."""
        event = events.ApiPartitionReassignment(reassignments, allow_replication_factor_change)
        results: ReassignmentResults = await self._submit(event)
        return results

    async def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Return the reassignments in progress, of ``partitions`` or of all if None."""
        requested = None if partitions is None else tuple(partitions)
        reassignments: Mapping[TopicPartition, ReplicaAssignment] = await self._submit(
            events.ListPartitionReassignments(requested)
        )
        return reassignments

    async def update_features(
        self, updates: Collection[FeatureUpdate], *, is_atomic: bool, should_write: bool
    ) -> FeatureUpdateResults:
        """``is_atomic`` applies all updates or none; without ``should_write`` only validate."""
        event = events.UpdateFeatures(tuple(updates), is_atomic, should_write)
        results: FeatureUpdateResults = await self._submit(event)
        return results

    # Changes at this broker

    def change_settings(self, settings: ControllerSettings) -> None:
        previous, self._settings = self._settings, settings
        enables_unclean = settings.unclean_leader_election_enable
        if enables_unclean and not previous.unclean_leader_election_enable:
            self._event_manager.put(events.UncleanLeaderElectionEnable(topic=None))

    def enable_topic_unclean_leader_election(self, topic: str) -> None:
        """The configuration of the topic now allows unclean leader elections."""
        self._event_manager.put(events.UncleanLeaderElectionEnable(topic))

    async def update_broker_info(self, registration: BrokerRegistration) -> None:
        """Replace the registration of this broker, whose endpoints changed."""
        await self._elector.registrar.update(registration)

    # Events

    async def _submit(self, event: events.PreemptableControllerEvent) -> Any:
        if not self.is_active:
            raise NotController
        try:
            return await self._event_manager.submit(event)
        except EventPreempted as preempted:
            raise NotController from preempted

    def _on_session_state_change(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._event_manager.clear()
            self._event_manager.put(events.Expire(self._store.session_id))

    async def _process_event(self, event: object) -> Any:
        try:
            return await self._dispatch(event)
        except (ControllerMoved, SessionExpired) as lost:
            log.info(
                "Controller moved to another broker or session expired when processing %s: %r",
                event,
                lost,
            )
            await self._elector.on_controllership_lost(lost)
            if isinstance(event, events.PreemptableControllerEvent):
                raise NotController from lost
        except ListenerMismatch as mismatch:
            log.error("Broker %d cannot be the controller: %s", self._broker_id, mismatch)
            if self._elector.active_controller is not None:
                self._event_manager.put(
                    events.ControllerFailoverFailed(
                        self._elector.active_controller.controller_epoch
                    )
                )
        finally:
            if self._elector.active_controller is not None:
                self._elector.active_controller.services.request_batch.send_requests_to_brokers()

    async def _dispatch(self, event: object) -> Any:
        match event:
            case events.ControllerChange():
                return await self._elector.elect()
            case events.Expire():
                return await self._elector.on_session_expired(event.session_id)
            case events.ControllerFailoverFailed():
                return await self._elector.trigger_controller_move(event.controller_epoch)
        active_controller = self._elector.active_controller
        if active_controller is not None:
            return await EVENT_HANDLERS[type(event)](active_controller, event)
        if isinstance(event, events.PreemptableControllerEvent):
            raise NotController
        return None
