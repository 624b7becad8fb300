"""A broker is about to stop: it leads and follows nothing any more, where others can.

Its leaders go to replicas in sync; of what it follows it leaves the in-sync replicas.  It asks
again, and stops, when it leads nothing that has other replicas, or when it has waited long enough.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging

from odradek.controller.context import NO_EPOCH
from odradek.controller.leader_election import Occasion
from odradek.controller.machinery import Machinery
from odradek.controller.partition_state import PartitionState
from odradek.controller.replica_state import ReplicaState
from odradek.protocol.errors import BrokerNotAvailable, StaleBrokerEpoch
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)


async def shut_down(
    machinery: Machinery, broker: int, *, broker_epoch: int
) -> tuple[TopicPartition, ...]:
    """What the broker still leads.  NO_EPOCH is of a broker that does not know its epoch."""
    context = machinery.context
    _check_broker(machinery, broker, broker_epoch)
    log.info("Broker %d is about to stop", broker)
    context.shutting_down.add(broker)
    led = context.led_by(broker)
    followed = [
        replica
        for replica in context.replicas_on(broker)
        if context.leader(replica.partition) not in (None, broker)
        and len(context.assignment(replica.partition).replicas) > 1
        and replica.partition.topic not in context.to_delete
    ]
    await machinery.partitions.move(led, PartitionState.ONLINE, Occasion.CONTROLLED_SHUTDOWN)
    await machinery.replicas.move(followed, ReplicaState.OFFLINE)
    return tuple(context.led_by(broker))


def _check_broker(machinery: Machinery, broker: int, broker_epoch: int) -> None:
    known = machinery.context.brokers.get(broker)
    if known is None:
        raise BrokerNotAvailable(f"Broker {broker} is not registered.")
    if broker_epoch != NO_EPOCH and broker_epoch < known.epoch:
        raise StaleBrokerEpoch(f"Broker {broker} is in epoch {known.epoch}, not {broker_epoch}.")
