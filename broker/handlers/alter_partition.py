"""AlterPartition: a leader asks the controller to shrink or grow its in-sync replicas."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from odradek.broker.call import Call
from odradek.protocol.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse


class Controller(Protocol):
    """The part of the controller that decides who is in sync."""

    async def alter_partition(
        self, request: AlterPartitionRequest, /, *, version: int
    ) -> AlterPartitionResponse: ...


def handle(
    controller: Controller, call: Call[AlterPartitionRequest]
) -> Awaitable[AlterPartitionResponse]:
    return controller.alter_partition(call.request, version=call.version)
