"""AlterPartition: a leader asks the controller to shrink or expand the ISR of partitions."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from odradek.broker.request import Request
from odradek.protocol.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse


class Controller(Protocol):
    """The part of the controller that changes the ISR."""

    async def alter_partition(
        self, request: AlterPartitionRequest, /, *, version: int
    ) -> AlterPartitionResponse: ...


def handle(
    controller: Controller, request: Request[AlterPartitionRequest]
) -> Awaitable[AlterPartitionResponse]:
    return controller.alter_partition(request.body, version=request.version)
