"""One broker's way into the controller's office, and out of it.

It stands whenever there is no controller.  It leaves when another broker is the controller, when a
write of it was fenced, and when its session is over; what it was doing is then for the next one.

After the end of a session the order matters: nothing of the old one is under way any more, then a
new session is opened, the broker registered, and an election tried.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import asyncio
import logging

from odradek.controller import events
from odradek.controller.election import NO_CONTROLLER, Elected, Election
from odradek.controller.metadata_writes import ControllerMoved
from odradek.controller.registration import NOT_REGISTERED, BrokerIdTaken, Registration
from odradek.controller.store.base import CannotOpen, SessionExpired
from odradek.controller.tenure import Office, Tenure

log = logging.getLogger(__name__)

#: Before something that did not go well is tried again.
BACKOFF_S = 1


class Candidate:
    """Has a tenure while it is the controller."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._broker_id = office.identity.broker_id
        self._election = Election(office.store, self._broker_id, office.world.now_ms)
        spoken = office.settings().spoken
        self.registration = Registration(office.store, office.identity, spoken)
        self.tenure: Tenure | None = None
        #: Who is the controller, as far as we know.
        self.controller_id = NO_CONTROLLER

    async def enter(self, patience_s: float) -> int:
        """Register for the first time; the broker's epoch.  Raises BrokerIdTaken."""
        while True:
            try:
                return await self.registration.register_within(patience_s)
            except SessionExpired:
                # Logs may have been recovered for long, and ZooKeeper been away meanwhile.
                log.warning("The session was over before broker %d was there", self._broker_id)
                await self._open_session()

    async def look(self) -> None:
        """Who is the controller now?  If nobody is, we may be."""
        self._note_controller(await self._election.controller(self._office.watches.controller))
        if self.controller_id != self._broker_id:
            self.stand_down()
        if self.controller_id == NO_CONTROLLER:
            elected = await self._election.stand()
            if elected is not None:
                await self._take_office(elected)

    async def session_over(self, session_id: int) -> None:
        """Begin again in a new session, unless that has been done."""
        if session_id != self._office.store.session_id:
            return
        self.stand_down()
        self.registration.epoch = NOT_REGISTERED
        self._note_controller(NO_CONTROLLER)
        await self._open_session()
        await self._register()
        await self.look()

    async def lose_office(self, why: ControllerMoved | SessionExpired) -> None:
        """Another is in charge, or nobody knows us any more."""
        self.stand_down()
        if isinstance(why, ControllerMoved):
            self._office.queue.put_once(events.ControllerChanged())
            try:
                await self._election.withdraw()
            except SessionExpired:
                log.info("The session of broker %d is over too", self._broker_id)

    async def give_up(self, elected: Elected) -> None:
        """Let another try, who may fare better, before we do it again."""
        self.stand_down()
        await self._election.resign(elected)
        await self._office.world.sleep(BACKOFF_S)

    def stand_down(self) -> None:
        tenure, self.tenure = self.tenure, None
        if tenure is not None:
            tenure.end()
            log.info("Broker %d is not the controller any more", self._broker_id)

    def _note_controller(self, broker: int) -> None:
        if broker != self.controller_id:
            self.controller_id = broker
            self._office.world.controller_changed()

    async def _take_office(self, elected: Elected) -> None:
        self._note_controller(self._broker_id)
        has_failed = True
        try:
            self.tenure = Tenure(self._office, elected)
            await self.tenure.begin()
            has_failed = False
        except (ControllerMoved, SessionExpired, asyncio.CancelledError):
            # Others know what to do then; a controller that is closed has not failed.
            has_failed = False
            raise
        finally:
            if has_failed:
                log.error("Broker %d could not begin to be the controller", self._broker_id)
                self.stand_down()
                self._office.queue.put(events.TenureFailed(elected))

    async def _open_session(self) -> None:
        told = ""
        while True:
            try:
                await self._office.store.open_session()
            except CannotOpen as failure:
                if str(failure) != told:  # once, not every second for as long as it lasts
                    told = str(failure)
                    log.error("No session with the metadata store: %s", told)
                await self._office.world.sleep(BACKOFF_S)
            else:
                return

    async def _register(self) -> None:
        while True:
            try:
                await self.registration.register()
            except BrokerIdTaken as taken:
                log.error("Not registered: %s", taken)
                await self._office.world.sleep(BACKOFF_S)
            else:
                return
