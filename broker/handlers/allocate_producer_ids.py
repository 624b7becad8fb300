"""AllocateProducerIds: a broker asks the controller for a block of producer ids."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from odradek.broker.call import Call
from odradek.controller.store.payloads.cluster import ProducerIdBlock
from odradek.protocol.api.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from odradek.protocol.error_codes import ErrorCode


class Controller(Protocol):
    """The part of the controller that gives producer ids away."""

    async def allocate_producer_ids(
        self, broker: int, /, *, broker_epoch: int
    ) -> ProducerIdBlock: ...


def handle(
    controller: Controller, call: Call[AllocateProducerIdsRequest]
) -> Awaitable[AllocateProducerIdsResponse]:
    return _allocated(controller, call.request)


async def _allocated(
    controller: Controller, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    block = await controller.allocate_producer_ids(
        request.broker_id, broker_epoch=request.broker_epoch
    )
    return AllocateProducerIdsResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE.code,
        producer_id_start=block.block_start,
        producer_id_len=block.block_end - block.block_start + 1,
    )
