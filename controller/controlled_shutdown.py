"""Controlled shutdown of a broker: moves its leaders and removes it from the ISRs.

Leaders move to other in-sync replicas.  Where the broker is a follower, it leaves the ISR.  The
broker repeats the request.  It stops when it leads no partition that has other replicas, or when
its retries are used up.  Kafka: KafkaController.doControlledShutdown.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

import logging

from odradek.controller.controller_context import NO_EPOCH
from odradek.controller.controller_services import ControllerServices
from odradek.controller.leader_election import PartitionLeaderElectionStrategy
from odradek.controller.partition_state import PartitionState
from odradek.controller.replica_state import ReplicaState
from odradek.protocol.errors import BrokerNotAvailable, StaleBrokerEpoch
from odradek.protocol.types import TopicPartition

log = logging.getLogger("kafka.controller")


async def process_controlled_shutdown(
    services: ControllerServices, broker_id: int, *, broker_epoch: int
) -> tuple[TopicPartition, ...]:
    """Return the partitions that the broker still leads.

    A broker that does not know its epoch sends NO_EPOCH.
    """
    context = services.context
    _check_broker_epoch(services, broker_id, broker_epoch)
    log.info("Shutting down broker %d", broker_id)
    context.shutting_down_broker_ids.add(broker_id)
    led = context.partition_leaders_on_broker(broker_id)
    followed = [
        replica
        for replica in context.replicas_on_broker(broker_id)
        if context.leader(replica.partition) not in (None, broker_id)
        and len(context.assignment(replica.partition).replicas) > 1
        and replica.partition.topic not in context.topics_to_be_deleted
    ]
    await services.partition_state_machine.handle_state_changes(
        led, PartitionState.ONLINE, PartitionLeaderElectionStrategy.CONTROLLED_SHUTDOWN
    )
    await services.replica_state_machine.handle_state_changes(followed, ReplicaState.OFFLINE)
    return tuple(context.partition_leaders_on_broker(broker_id))


def _check_broker_epoch(services: ControllerServices, broker_id: int, broker_epoch: int) -> None:
    broker = services.context.brokers.get(broker_id)
    if broker is None:
        raise BrokerNotAvailable(f"Broker {broker_id} is not registered.")
    if broker_epoch != NO_EPOCH and broker_epoch < broker.epoch:
        raise StaleBrokerEpoch(
            f"Broker {broker_id} has broker epoch {broker.epoch}, but the request has "
            f"{broker_epoch}."
        )
