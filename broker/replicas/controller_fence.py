"""Which controller is obeyed, and in which life of this broker.

LeaderAndIsr, StopReplica and UpdateMetadata name the epoch of the controller that sends them, and
that of the broker that they are for.  What comes from an earlier controller, or was meant for this
broker before it restarted, arrives late and is refused.

What takes several turns on the loop keeps ``order``, so that nothing overtakes it: the controller
has one request under way at a time, but may send another once it has lost its connection.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from odradek.protocol.errors import StaleBrokerEpoch, StaleControllerEpoch

log = logging.getLogger(__name__)

INITIAL_CONTROLLER_EPOCH = 0
#: In requests of versions that do not tell.
UNKNOWN_BROKER_EPOCH = -1


class ControllerFence:
    """``broker_epoch`` tells the epoch in which this broker is registered now."""

    def __init__(self, broker_epoch: Callable[[], int]) -> None:
        self._broker_epoch = broker_epoch
        self.controller_epoch = INITIAL_CONTROLLER_EPOCH
        self.state_change_lock = asyncio.Lock()

    def check(self, *, controller_epoch: int, broker_epoch: int) -> None:
        """From now on, earlier controllers are refused.

        A later life of this broker is not: the controller may learn of it before the broker does.
        """
        registered = self._broker_epoch()
        if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < registered:
            log.info("A request is for epoch %d, but this is %d", broker_epoch, registered)
            raise StaleBrokerEpoch
        if controller_epoch < self.controller_epoch:
            latest = self.controller_epoch
            log.warning("A controller of epoch %d is late: one is in %d", controller_epoch, latest)
            raise StaleControllerEpoch
        self.controller_epoch = controller_epoch
