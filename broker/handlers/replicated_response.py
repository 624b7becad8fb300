"""Responses that wait until the log of a group coordinator is replicated.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Protocol, TypeVar

from odradek.broker.coordinator.append_errors import GROUP_UPDATE_ERRORS, map_append_error
from odradek.broker.request import DelayedOperation
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError

Response = TypeVar("Response")


class CoordinatorLog(Protocol):
    """The log of a coordinator."""

    @property
    def is_fully_replicated(self) -> bool: ...

    async def wait_until_fully_replicated(self) -> None: ...


def respond_when_replicated(
    log: CoordinatorLog,
    response: Response,
    error_map: Mapping[ErrorCode, ErrorCode] = GROUP_UPDATE_ERRORS,
) -> Response | DelayedOperation[Response]:
    """Respond when all records of the log are replicated; raises the mapped error on failure."""
    if log.is_fully_replicated:
        return response
    return DelayedOperation(
        partial(_wait_until_replicated, log, response, error_map), completes_on_shutdown=True
    )


async def _wait_until_replicated(
    log: CoordinatorLog, response: Response, error_map: Mapping[ErrorCode, ErrorCode]
) -> Response:
    try:
        await log.wait_until_fully_replicated()
    except KafkaError as error:
        raise map_append_error(error, error_map) from error
    return response
