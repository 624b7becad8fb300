"""Election and resignation of the controller on one broker.

Kafka: KafkaController.elect, resign, processExpire and processRegisterBrokerAndReelect.

The broker takes part in an election whenever there is no controller.  It resigns when another
broker is the controller, when one of its writes was fenced, and when its session expired.  The next
controller resumes the work in progress.

After a session expired the order matters: first all work of the old session stops, then a new
session is opened, the broker is registered, and an election is tried.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import asyncio
import logging

from odradek.controller import events
from odradek.controller.active_controller import ActiveController, ControllerDependencies
from odradek.controller.controller_znode import (
    NO_CONTROLLER,
    ControllerEpochAndVersion,
    ControllerZNode,
)
from odradek.controller.metadata_writer import ControllerMoved
from odradek.controller.registration import UNKNOWN_BROKER_EPOCH, BrokerIdTaken, BrokerRegistrar
from odradek.controller.store.base import CannotOpenSession, SessionExpired

log = logging.getLogger("kafka.controller")

#: The delay before a failed step is retried.
RETRY_BACKOFF_S = 1


class ControllerElector:
    """Holds an ActiveController while this broker is the controller."""

    def __init__(self, dependencies: ControllerDependencies) -> None:
        self._dependencies = dependencies
        self._broker_id = dependencies.identity.broker_id
        self._controller_znode = ControllerZNode(
            dependencies.store, self._broker_id, dependencies.environment.now_ms
        )
        metadata_version = dependencies.settings().metadata_version
        self.registrar = BrokerRegistrar(
            dependencies.store, dependencies.identity, metadata_version
        )
        self.active_controller: ActiveController | None = None
        #: The last known controller.
        self.controller_id = NO_CONTROLLER

    async def register_broker(self, timeout_s: float) -> int:
        """Register for the first time and return the broker epoch.  Raises BrokerIdTaken."""
        while True:
            try:
                return await self.registrar.register_with_timeout(timeout_s)
            except SessionExpired:
                # Log recovery can take long, and ZooKeeper may have been unreachable meanwhile.
                log.warning("Session expired before broker %d was registered", self._broker_id)
                await self._open_session()

    async def elect(self) -> None:
        """Read the current controller; if there is none, try to become the controller."""
        self._set_controller_id(
            await self._controller_znode.get_controller_id(
                self._dependencies.change_handlers.on_controller_change
            )
        )
        if self.controller_id != self._broker_id:
            self.resign()
        if self.controller_id == NO_CONTROLLER:
            controller_epoch = (
                await self._controller_znode.register_controller_and_increment_epoch()
            )
            if controller_epoch is not None:
                await self._become_active(controller_epoch)

    async def on_session_expired(self, session_id: int) -> None:
        """Resign, open a new session, register and elect, unless a newer session is open."""
        if session_id != self._dependencies.store.session_id:
            return
        self.resign()
        self.registrar.epoch = UNKNOWN_BROKER_EPOCH
        self._set_controller_id(NO_CONTROLLER)
        await self._open_session()
        await self._reregister_broker()
        await self.elect()

    async def on_controllership_lost(self, cause: ControllerMoved | SessionExpired) -> None:
        """Resign, because another broker is the controller or the session expired."""
        self.resign()
        if isinstance(cause, ControllerMoved):
            self._dependencies.event_manager.put_if_absent(events.ControllerChange())
            try:
                await self._controller_znode.delete_stale_controller()
            except SessionExpired:
                log.info(
                    "Session expired while broker %d deleted its stale /controller znode",
                    self._broker_id,
                )

    async def trigger_controller_move(self, controller_epoch: ControllerEpochAndVersion) -> None:
        """Resign and wait, which gives another broker the chance to become the controller."""
        self.resign()
        await self._controller_znode.delete_controller(controller_epoch)
        await self._dependencies.environment.sleep(RETRY_BACKOFF_S)

    def resign(self) -> None:
        active_controller, self.active_controller = self.active_controller, None
        if active_controller is not None:
            active_controller.on_controller_resignation()
            log.info("Resigned: broker %d is no longer the controller", self._broker_id)

    def _set_controller_id(self, controller_id: int) -> None:
        if controller_id != self.controller_id:
            self.controller_id = controller_id
            self._dependencies.environment.on_controller_changed()

    async def _become_active(self, controller_epoch: ControllerEpochAndVersion) -> None:
        self._set_controller_id(self._broker_id)
        has_failed = True
        try:
            self.active_controller = ActiveController(self._dependencies, controller_epoch)
            await self.active_controller.on_controller_failover()
            has_failed = False
        except (ControllerMoved, SessionExpired, asyncio.CancelledError):
            # The caller handles these; closing a controller is not a failure.
            has_failed = False
            raise
        finally:
            if has_failed:
                log.error("Controller failover to broker %d failed; resigning", self._broker_id)
                self.resign()
                self._dependencies.event_manager.put(
                    events.ControllerFailoverFailed(controller_epoch)
                )

    async def _open_session(self) -> None:
        last_error = ""
        while True:
            try:
                await self._dependencies.store.open_session()
            except CannotOpenSession as error:
                if str(error) != last_error:  # log each error once, not every second
                    last_error = str(error)
                    log.error("Cannot open a session with the metadata store: %s", last_error)
                await self._dependencies.environment.sleep(RETRY_BACKOFF_S)
            else:
                return

    async def _reregister_broker(self) -> None:
        while True:
            try:
                await self.registrar.register()
            except BrokerIdTaken as error:
                log.error("Broker registration failed: %s", error)
                await self._dependencies.environment.sleep(RETRY_BACKOFF_S)
            else:
                return
