"""Replicas taken away for good: out of the in-sync replicas, stopped, deleted, forgotten.

Broker after broker, in the order of their ids: so Kafka does it, and so in-sync replicas, leader
epochs and versions are afterwards what Kafka would have left.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from odradek.controller.context import Replica
from odradek.controller.machinery import Machinery
from odradek.controller.replica_state import ReplicaState


async def stop(machinery: Machinery, replicas: Iterable[Replica]) -> None:
    """Take them offline."""
    by_broker: defaultdict[int, list[Replica]] = defaultdict(list)
    for replica in replicas:
        by_broker[replica.broker].append(replica)
    for broker in sorted(by_broker):
        await machinery.replicas.move(by_broker[broker], ReplicaState.OFFLINE)


async def remove(machinery: Machinery, replicas: Collection[Replica]) -> None:
    """Nobody waits until the brokers have deleted them."""
    await stop(machinery, replicas)
    for state in (
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.NON_EXISTENT,
    ):
        await machinery.replicas.move(replicas, state)
