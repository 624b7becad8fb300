"""The controller election in ZooKeeper: the znodes /controller and /controller_epoch.

Kafka: KafkaZkClient.registerControllerAndIncrementControllerEpoch.

/controller names the broker that is the controller.  It is ephemeral, so it ends with the session
of that broker.  The broker that creates it increments /controller_epoch in the same transaction and
keeps the resulting znode version.  Every later write of the controller is conditional on this
version, so a controller that was replaced without noticing it can no longer write.

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

log = logging.getLogger("kafka.controller")

NO_CONTROLLER = -1
_INITIAL_CONTROLLER_EPOCH = ControllerEpoch(0)


@dataclass(frozen=True, slots=True)
class ControllerEpochAndVersion:
    """The controller epoch of this broker, and the znode version of /controller_epoch."""

    epoch: int
    epoch_zk_version: int


class ControllerZNode:
    """Reads, creates and deletes /controller for one broker."""

    def __init__(self, store: MetadataStore, broker_id: int, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._broker_id = broker_id
        self._now_ms = now_ms

    async def get_controller_id(self, watch: Watch | None = None) -> int:
        """Return the controller's id, or NO_CONTROLLER; ``watch`` fires at the next change."""
        if await self._store.exists(paths.CONTROLLER, watch) is None:
            return NO_CONTROLLER
        node = await self._get_controller_node()
        return (
            NO_CONTROLLER if node is None else ControllerRegistration.decode(node.value).broker_id
        )

    async def register_controller_and_increment_epoch(self) -> ControllerEpochAndVersion | None:
        """Become the controller if there is none; None if another broker was elected."""
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
        """Delete /controller, unless another broker is the controller already."""
        try:
            await self._store.multi(
                [
                    Check(paths.CONTROLLER_EPOCH, controller_epoch.epoch_zk_version),
                    Delete(paths.CONTROLLER),
                ]
            )
        except MultiFailed as error:
            log.info(
                "Did not delete /controller: no longer the controller with epoch %d: %r",
                controller_epoch.epoch,
                error.cause,
            )

    async def delete_stale_controller(self) -> None:
        """Delete /controller if this session owns it, although its controller epoch has ended."""
        # Read the epoch first: after a later election the version check rejects the delete.
        epoch_node = await self._get_or_create_epoch_node()
        node = await self._get_controller_node()
        if node is not None and node.stat.ephemeral_owner == self._store.session_id:
            epoch = ControllerEpoch.decode(epoch_node.value).epoch
            await self.delete_controller(ControllerEpochAndVersion(epoch, epoch_node.stat.version))

    async def _find_own_registration(
        self, epoch: ControllerEpoch
    ) -> ControllerEpochAndVersion | None:
        """Check whether our own transaction succeeded but its response was lost."""
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
            "Broker %d successfully elected as the controller. Epoch incremented to %d",
            self._broker_id,
            controller_epoch.epoch,
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
            log.info("Creating /controller_epoch: this cluster has had no controller yet")
        try:
            await self._store.create(paths.CONTROLLER_EPOCH, _INITIAL_CONTROLLER_EPOCH.encode())
        except NodeExists:
            log.info("Another broker created /controller_epoch concurrently")
        return await self._store.get(paths.CONTROLLER_EPOCH)
