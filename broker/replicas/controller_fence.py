"""Rejects control requests with a stale controller epoch or a stale broker epoch.

Kafka: KafkaApis.isBrokerEpochStale and the controller epoch checks of ReplicaManager.

LeaderAndIsr, StopReplica and UpdateMetadata carry the epoch of the sending controller and the epoch
of the receiving broker.  A late request from an earlier controller is rejected.  So is a request
that was meant for this broker before it restarted.

A request that takes several time slices holds ``state_change_lock``, so no other request overtakes
it.  The controller has one request in flight at a time, but it may send another one after it has
lost its connection.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from odradek.protocol.errors import StaleBrokerEpoch, StaleControllerEpoch

log = logging.getLogger("state.change.logger")

INITIAL_CONTROLLER_EPOCH = 0
#: The broker epoch in requests of versions without that field.
UNKNOWN_BROKER_EPOCH = -1


class ControllerFence:
    """``broker_epoch`` returns the epoch of this broker's current registration."""

    def __init__(self, broker_epoch: Callable[[], int]) -> None:
        self._broker_epoch = broker_epoch
        self.controller_epoch = INITIAL_CONTROLLER_EPOCH
        self.state_change_lock = asyncio.Lock()

    def check(self, *, controller_epoch: int, broker_epoch: int) -> None:
        """Accept the request or raise; earlier controllers are rejected from now on.

        A newer broker epoch is accepted, because the controller may learn it before the broker.
        """
        registered = self._broker_epoch()
        if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < registered:
            log.info(
                "Rejecting controller request since its broker epoch %d is smaller than the "
                "current broker epoch %d",
                broker_epoch,
                registered,
            )
            raise StaleBrokerEpoch
        if controller_epoch < self.controller_epoch:
            latest = self.controller_epoch
            log.warning(
                "Rejecting controller request since its controller epoch %d is old. "
                "Latest known controller epoch is %d",
                controller_epoch,
                latest,
            )
            raise StaleControllerEpoch
        self.controller_epoch = controller_epoch
