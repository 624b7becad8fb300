"""ControlledShutdown: a broker that will stop asks the controller to move its leaders away.

A controller that is not in office says STALE_CONTROLLER_EPOCH, and not NOT_CONTROLLER as to all
other requests: brokers know this one from the time before that code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from typing import Protocol

from odradek.broker.call import Call
from odradek.protocol.api.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import NotController, StaleControllerEpoch
from odradek.protocol.types import TopicPartition


class Controller(Protocol):
    """The part of the controller that lets brokers go."""

    async def shut_down(
        self, broker: int, /, *, broker_epoch: int
    ) -> Collection[TopicPartition]: ...


def handle(
    controller: Controller, call: Call[ControlledShutdownRequest]
) -> Awaitable[ControlledShutdownResponse]:
    return _still_led(controller, call.request)


async def _still_led(
    controller: Controller, request: ControlledShutdownRequest
) -> ControlledShutdownResponse:
    try:
        left = await controller.shut_down(request.broker_id, broker_epoch=request.broker_epoch)
    except NotController as refusal:
        raise StaleControllerEpoch from refusal
    return ControlledShutdownResponse(
        error_code=ErrorCode.NONE.code,
        remaining_partitions=[
            ControlledShutdownResponse.RemainingPartition(
                topic_name=each.topic, partition_index=each.partition
            )
            for each in left
        ],
    )
