"""Replicas taken away for good: out of the in-sync replicas, stopped, deleted, forgotten.

Broker after broker, in the order of their ids: so Kafka does it, and so in-sync replicas, leader
epochs and versions are afterwards what Kafka would have left.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from odradek.controller.controller_context import PartitionAndReplica
from odradek.controller.controller_services import ControllerServices
from odradek.controller.replica_state import ReplicaState


async def stop(services: ControllerServices, replicas: Iterable[PartitionAndReplica]) -> None:
    """Take them offline."""
    by_broker: defaultdict[int, list[PartitionAndReplica]] = defaultdict(list)
    for replica in replicas:
        by_broker[replica.broker_id].append(replica)
    for broker in sorted(by_broker):
        await services.replica_state_machine.handle_state_changes(
            by_broker[broker], ReplicaState.OFFLINE
        )


async def remove(services: ControllerServices, replicas: Collection[PartitionAndReplica]) -> None:
    """Nobody waits until the brokers have deleted them."""
    await stop(services, replicas)
    for state in (
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.NON_EXISTENT,
    ):
        await services.replica_state_machine.handle_state_changes(replicas, state)
