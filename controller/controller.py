"""The controller: who leads what, and who is told so.

Every broker has one; that of one broker is in office, and all others wait for it to leave.  What
happens becomes an event, and events are handled one after the other: see events.py for what they
are, duties.py for whose they are, and candidate.py for how a controller comes and goes.

    controller = Controller(store, identity, settings, world)
    await controller.start()            # the store's session is open, its roots are there
    ...
    await controller.close()            # before the store is closed

What brokers and people ask for is refused with NotController while another is in office.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Any

from odradek.controller import events
from odradek.controller.assignment import Assignment
from odradek.controller.brokers import Outnumbered
from odradek.controller.candidate import Candidate
from odradek.controller.controller_settings import ControllerSettings
from odradek.controller.duties import DUTIES
from odradek.controller.event_queue import EventQueue, QueueCleared
from odradek.controller.feature_updates import FeatureUpdate
from odradek.controller.feature_updates import Outcomes as FeatureOutcomes
from odradek.controller.metadata_writes import ControllerMoved
from odradek.controller.preferred_leaders import ElectionKind, ElectionResults
from odradek.controller.reassignment_requests import Outcomes, Targets
from odradek.controller.registration import Identity
from odradek.controller.store.base import MetadataStore, SessionExpired, SessionState
from odradek.controller.store.payloads.broker import BrokerRegistration
from odradek.controller.store.payloads.cluster import ProducerIdBlock
from odradek.controller.tenure import ControllerWorld, Office
from odradek.controller.tree_watches import TreeWatches
from odradek.protocol.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.protocol.errors import NotController
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)


class Controller:
    """One broker's; in office or not."""

    def __init__(
        self,
        store: MetadataStore,
        identity: Identity,
        settings: ControllerSettings,
        world: ControllerWorld,
    ) -> None:
        self._store = store
        self._broker_id = identity.broker_id
        self._settings = settings
        self._world = world
        self._queue = EventQueue(self._handle)
        watches = TreeWatches(self._queue.put_once)
        office = Office(store, identity, lambda: self._settings, world, self._queue, watches)
        self._candidate = Candidate(office)
        self._task: asyncio.Task[None] | None = None

    async def start(self, *, patience_s: float = 0) -> int:
        """Register the broker, and stand for election; the broker's epoch.

        Raises BrokerIdTaken, if it still is after ``patience_s``.
        """
        self._store.listen(self._session_changed)
        epoch = await self._candidate.enter(patience_s)
        self._queue.put(events.ControllerChanged())
        self._task = self._world.start_task(self._queue.run(), name="controller-events")
        return epoch

    async def close(self) -> None:
        """Leave office at once, in the middle of whatever it is."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._candidate.stand_down()

    # What is known

    @property
    def is_active(self) -> bool:
        return self._candidate.tenure is not None

    @property
    def controller_id(self) -> int:
        """NO_CONTROLLER if there is none, or none that we know of."""
        return self._candidate.controller_id

    @property
    def broker_epoch(self) -> int:
        return self._candidate.registration.epoch

    # What brokers ask for

    async def alter_partition(
        self, request: AlterPartitionRequest, *, version: int
    ) -> AlterPartitionResponse:
        answer: AlterPartitionResponse = await self._ask(events.AlterPartition(request, version))
        return answer

    async def shut_down(self, broker: int, *, broker_epoch: int) -> tuple[TopicPartition, ...]:
        """The partitions that a broker which is about to stop still leads.

        Of all that is refused with NotController, this alone is answered STALE_CONTROLLER_EPOCH.
        """
        event = events.ControlledShutdown(broker, broker_epoch)
        left: tuple[TopicPartition, ...] = await self._ask(event)
        return left

    async def allocate_producer_ids(self, broker: int, *, broker_epoch: int) -> ProducerIdBlock:
        event = events.AllocateProducerIds(broker, broker_epoch)
        block: ProducerIdBlock = await self._ask(event)
        return block

    # What people ask for

    async def elect_leaders(
        self, kind: ElectionKind, partitions: Collection[TopicPartition] | None
    ) -> ElectionResults:
        """None: of all partitions that need it."""
        named = None if partitions is None else tuple(partitions)
        results: ElectionResults = await self._ask(events.ElectLeaders(kind, named))
        return results

    async def alter_reassignments(
        self, requested: Targets, *, may_change_factor: bool = True
    ) -> Outcomes:
        """None for a target: what is under way shall be undone."""
        event = events.AlterReassignments(requested, may_change_factor)
        outcomes: Outcomes = await self._ask(event)
        return outcomes

    async def reassignments(
        self, partitions: Collection[TopicPartition] | None
    ) -> Mapping[TopicPartition, Assignment]:
        """Those that are under way, of these partitions or of all."""
        named = None if partitions is None else tuple(partitions)
        listed: Mapping[TopicPartition, Assignment] = await self._ask(
            events.ListReassignments(named)
        )
        return listed

    async def update_features(
        self, updates: Collection[FeatureUpdate], *, is_whole: bool, is_written: bool
    ) -> FeatureOutcomes:
        """All or none with ``is_whole``; without ``is_written`` it is only judged."""
        event = events.UpdateFeatures(tuple(updates), is_whole, is_written)
        outcomes: FeatureOutcomes = await self._ask(event)
        return outcomes

    # What changes at this broker

    def change_settings(self, settings: ControllerSettings) -> None:
        before, self._settings = self._settings, settings
        allows = settings.unclean_leader_election_enable
        if allows and not before.unclean_leader_election_enable:
            self._queue.put(events.UncleanElectionsAllowed(topic=None))

    def allow_unclean_elections(self, topic: str) -> None:
        """The topic's own configuration allows them now."""
        self._queue.put(events.UncleanElectionsAllowed(topic))

    async def change_registration(self, registration: BrokerRegistration) -> None:
        """The broker has other endpoints than before."""
        await self._candidate.registration.change(registration)

    # Events

    async def _ask(self, event: events.Request) -> Any:
        if not self.is_active:
            raise NotController
        try:
            return await self._queue.ask(event)
        except QueueCleared as cleared:
            raise NotController from cleared

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._queue.clear()
            self._queue.put(events.SessionOver(self._store.session_id))

    async def _handle(self, event: object) -> Any:
        try:
            return await self._handled(event)
        except (ControllerMoved, SessionExpired) as over:
            log.info("Not the controller any more, at %s: %r", event, over)
            await self._candidate.lose_office(over)
            if isinstance(event, events.Request):
                raise NotController from over
        except Outnumbered as failure:
            log.error("Broker %d shall not be the controller: %s", self._broker_id, failure)
            if self._candidate.tenure is not None:
                self._queue.put(events.TenureFailed(self._candidate.tenure.elected))
        finally:
            if self._candidate.tenure is not None:
                self._candidate.tenure.machinery.batch.send()

    async def _handled(self, event: object) -> Any:
        match event:
            case events.ControllerChanged():
                return await self._candidate.look()
            case events.SessionOver():
                return await self._candidate.session_over(event.session_id)
            case events.TenureFailed():
                return await self._candidate.give_up(event.elected)
        tenure = self._candidate.tenure
        if tenure is not None:
            return await DUTIES[type(event)](tenure, event)
        if isinstance(event, events.Request):
            raise NotController
        return None
