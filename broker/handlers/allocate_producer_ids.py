"""AllocateProducerIds: a broker asks the controller for a block of producer ids."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from odradek.broker.request import Request
from odradek.controller.store.payloads.cluster import ProducerIdsBlock
from odradek.protocol.api.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from odradek.protocol.error_codes import ErrorCode


class Controller(Protocol):
    """The part of the controller that allocates producer ids."""

    async def allocate_producer_ids(
        self, broker_id: int, /, *, broker_epoch: int
    ) -> ProducerIdsBlock: ...


def handle(
    controller: Controller, request: Request[AllocateProducerIdsRequest]
) -> Awaitable[AllocateProducerIdsResponse]:
    return _allocate(controller, request.body)


async def _allocate(
    controller: Controller, body: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    block = await controller.allocate_producer_ids(body.broker_id, broker_epoch=body.broker_epoch)
    return AllocateProducerIdsResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE.code,
        producer_id_start=block.block_start,
        producer_id_len=block.block_end - block.block_start + 1,
    )
