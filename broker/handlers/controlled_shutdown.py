"""ControlledShutdown: a broker that is about to stop asks the controller to move its leaders away.

A broker that is not the active controller answers STALE_CONTROLLER_EPOCH, and not NOT_CONTROLLER as
to all other requests: this API is older than NOT_CONTROLLER.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from typing import Protocol

from odradek.broker.request import Request
from odradek.protocol.api.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import NotController, StaleControllerEpoch
from odradek.protocol.types import TopicPartition


class Controller(Protocol):
    """The part of the controller that handles controlled shutdown."""

    async def controlled_shutdown(
        self, broker_id: int, /, *, broker_epoch: int
    ) -> Collection[TopicPartition]: ...


def handle(
    controller: Controller, request: Request[ControlledShutdownRequest]
) -> Awaitable[ControlledShutdownResponse]:
    return _shut_down(controller, request.body)


async def _shut_down(
    controller: Controller, body: ControlledShutdownRequest
) -> ControlledShutdownResponse:
    try:
        remaining = await controller.controlled_shutdown(
            body.broker_id, broker_epoch=body.broker_epoch
        )
    except NotController as error:
        raise StaleControllerEpoch from error
    return ControlledShutdownResponse(
        error_code=ErrorCode.NONE.code,
        remaining_partitions=[
            ControlledShutdownResponse.RemainingPartition(
                topic_name=partition.topic, partition_index=partition.partition
            )
            for partition in remaining
        ],
    )
