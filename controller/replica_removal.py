"""Permanent removal of replicas: out of the ISR, stopped, deleted, dropped from the context.

Replicas go offline broker by broker, in the order of broker ids, as in Kafka.  So the resulting
ISR, leader epochs and partition epochs equal Kafka's.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from odradek.controller.controller_context import PartitionAndReplica
from odradek.controller.controller_services import ControllerServices
from odradek.controller.replica_state import ReplicaState


async def stop(services: ControllerServices, replicas: Iterable[PartitionAndReplica]) -> None:
    """Change the replicas to OFFLINE, broker by broker."""
    by_broker: defaultdict[int, list[PartitionAndReplica]] = defaultdict(list)
    for replica in replicas:
        by_broker[replica.broker_id].append(replica)
    for broker in sorted(by_broker):
        await services.replica_state_machine.handle_state_changes(
            by_broker[broker], ReplicaState.OFFLINE
        )


async def remove(services: ControllerServices, replicas: Collection[PartitionAndReplica]) -> None:
    """Delete the replicas; do not wait until the brokers have deleted them."""
    await stop(services, replicas)
    for state in (
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.NON_EXISTENT,
    ):
        await services.replica_state_machine.handle_state_changes(replicas, state)
