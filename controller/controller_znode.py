"""Which broker is the controller?  The one whose node /controller is.

The node is ephemeral, so it goes with the session of its broker.  Whoever creates it raises
/controller_epoch in the same step, and keeps the version that this node has then: every later write
of a controller is conditional on it, so one that was replaced without knowing writes nothing more.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from odradek.controller.store import paths
from odradek.controller.store.base import (
    BadVersion,
    Check,
    Create,
    Delete,
    MetadataStore,
    MultiFailed,
    NodeExists,
    NoNode,
    SetData,
    Stat,
    Watch,
    ZNode,
)
from odradek.controller.store.payloads.controller import ControllerEpoch, ControllerRegistration

log = logging.getLogger(__name__)

NO_CONTROLLER = -1
_INITIAL_CONTROLLER_EPOCH = ControllerEpoch(0)


@dataclass(frozen=True, slots=True)
class ControllerEpochAndVersion:
    """This broker is the controller."""

    epoch: int
    epoch_zk_version: int


class ControllerZNode:
    """One broker's part in it."""

    def __init__(self, store: MetadataStore, broker_id: int, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._broker_id = broker_id
        self._now_ms = now_ms

    async def get_controller_id(self, watch: Watch | None = None) -> int:
        """The id of the controller, or NO_CONTROLLER; ``watch`` hears of the next change."""
        if await self._store.exists(paths.CONTROLLER, watch) is None:
            return NO_CONTROLLER
        node = await self._get_controller_node()
        return (
            NO_CONTROLLER if node is None else ControllerRegistration.decode(node.value).broker_id
        )

    async def register_controller_and_increment_epoch(self) -> ControllerEpochAndVersion | None:
        """Become the controller if there is none; None if another was quicker."""
        if await self._get_controller_node() is not None:
            return None
        epoch_node = await self._get_or_create_epoch_node()
        epoch = ControllerEpoch(ControllerEpoch.decode(epoch_node.value).epoch + 1)
        registration = ControllerRegistration(self._broker_id, timestamp_ms=self._now_ms())
        try:
            _, stat = await self._store.multi(
                [
                    Create(paths.CONTROLLER, registration.encode(), is_ephemeral=True),
                    SetData(
                        paths.CONTROLLER_EPOCH, epoch.encode(), version=epoch_node.stat.version
                    ),
                ]
            )
        except MultiFailed as error:
            if not isinstance(error.cause, NodeExists | BadVersion):
                raise
            return await self._find_own_registration(epoch)
        assert isinstance(stat, Stat), stat
        return self._log_elected(ControllerEpochAndVersion(epoch.epoch, stat.version))

    async def delete_controller(self, controller_epoch: ControllerEpochAndVersion) -> None:
        """Give it up, unless another has it already."""
        try:
            await self._store.multi(
                [
                    Check(paths.CONTROLLER_EPOCH, controller_epoch.epoch_zk_version),
                    Delete(paths.CONTROLLER),
                ]
            )
        except MultiFailed as error:
            log.info(
                "Not the controller of epoch %d any more: %r", controller_epoch.epoch, error.cause
            )

    async def delete_stale_controller(self) -> None:
        """Take our node away if it is there still though our epoch is over, for whatever reason."""
        # The epoch first: if another is elected after this read, nothing is taken from it.
        epoch_node = await self._get_or_create_epoch_node()
        node = await self._get_controller_node()
        if node is not None and node.stat.ephemeral_owner == self._store.session_id:
            epoch = ControllerEpoch.decode(epoch_node.value).epoch
            await self.delete_controller(ControllerEpochAndVersion(epoch, epoch_node.stat.version))

    async def _find_own_registration(
        self, epoch: ControllerEpoch
    ) -> ControllerEpochAndVersion | None:
        """Another was quicker, unless it was we ourselves and the answer was lost."""
        node = await self._get_controller_node()
        if node is None or node.stat.ephemeral_owner != self._store.session_id:
            return None
        epoch_node = await self._store.get(paths.CONTROLLER_EPOCH)
        if ControllerEpoch.decode(epoch_node.value) != epoch:
            return None
        return self._log_elected(ControllerEpochAndVersion(epoch.epoch, epoch_node.stat.version))

    def _log_elected(
        self, controller_epoch: ControllerEpochAndVersion
    ) -> ControllerEpochAndVersion:
        log.info(
            "Broker %d is the controller, in epoch %d", self._broker_id, controller_epoch.epoch
        )
        return controller_epoch

    async def _get_controller_node(self) -> ZNode | None:
        try:
            return await self._store.get(paths.CONTROLLER)
        except NoNode:
            return None

    async def _get_or_create_epoch_node(self) -> ZNode:
        try:
            return await self._store.get(paths.CONTROLLER_EPOCH)
        except NoNode:
            log.info("The first controller of this cluster")
        try:
            await self._store.create(paths.CONTROLLER_EPOCH, _INITIAL_CONTROLLER_EPOCH.encode())
        except NodeExists:
            log.info("Another broker was about to become the first controller too")
        return await self._store.get(paths.CONTROLLER_EPOCH)
