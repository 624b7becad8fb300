"""Checks of requests that change topics: only the active controller handles them.

If the session with the store expires during such a request, this broker is no longer the
controller, and it is unknown whether its writes took effect.  Kafka answers UNKNOWN_SERVER_ERROR,
and clients give up.  Odradek answers NOT_CONTROLLER, as for elections and reassignments, and
clients retry with the next controller.  Nearly always nothing was written, because the store was
unreachable.  Otherwise the retry reports that the topic already exists, or no longer exists.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Protocol, TypeVar

from odradek.controller.store.base import SessionExpired
from odradek.protocol.errors import NotController

log = logging.getLogger("kafka.server")

Result = TypeVar("Result")


class ControllerGuard(Protocol):
    """Whether this broker is the active controller."""

    @property
    def is_active(self) -> bool: ...


def check_active(controller: ControllerGuard) -> None:
    if not controller.is_active:
        raise NotController


async def run_as_controller(work: Awaitable[Result]) -> Result:
    try:
        return await work
    except SessionExpired as error:
        log.warning(
            "Session expired during a controller request; its outcome is unknown: %r", error
        )
        raise NotController from error
