"""What is done when replicas are gone, with their broker or with a log directory of it.

Partitions that they led get other leaders, if any can lead; they leave the in-sync replicas; those
that were being deleted cannot be for now.  All brokers are told.

Owner: the event loop; part of the controller's event queue.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from odradek.controller.context import Replica
from odradek.controller.machinery import Machinery
from odradek.controller.partition_state import PartitionState
from odradek.controller.replica_state import ReplicaState


class Deletions(Protocol):
    """The part of the deletion of topics that the loss of replicas needs."""

    async def failed(self, replicas: Collection[Replica]) -> None: ...


class OfflineReplicas:
    """Takes replicas out of service that the context shows as not online."""

    def __init__(self, machinery: Machinery, deletions: Deletions) -> None:
        self._context = machinery.context
        self._machinery = machinery
        self._deletions = deletions

    async def take_out(self, replicas: Collection[Replica]) -> None:
        partitions = self._machinery.partitions
        to_delete = self._context.to_delete
        staying = [each for each in replicas if each.partition.topic not in to_delete]
        touched = dict.fromkeys(each.partition for each in staying)
        await partitions.move(self._context.without_leader(touched), PartitionState.OFFLINE)
        await partitions.elect_missing()
        await self._machinery.replicas.move(staying, ReplicaState.OFFLINE)
        going = [each for each in replicas if each.partition.topic in to_delete]
        if going:
            await self._deletions.failed(going)
        self._machinery.batch.update_metadata()
