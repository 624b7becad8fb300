"""Who may be asked about topics: only the controller, for as long as it is in office.

If its session ends while it is at work, its office has ended too, and nobody knows what has become
of what it wrote.  Kafka answers UNKNOWN_SERVER_ERROR, and clients give up.  Here they are told to
ask the next controller, as whoever asks for elections or reassignments is: nearly always nothing
was written, as the store was away; and else they are told that the topic is there, or gone.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Protocol, TypeVar

from odradek.controller.store.base import SessionExpired
from odradek.protocol.errors import NotController

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class ControllerGuard(Protocol):
    """Whether this broker's controller is the one in office."""

    @property
    def is_active(self) -> bool: ...


def check_active(controller: ControllerGuard) -> None:
    if not controller.is_active:
        raise NotController


async def run_as_controller(work: Awaitable[Result]) -> Result:
    try:
        return await work
    except SessionExpired as error:
        log.warning("What was asked of the controller may be done or not: %r", error)
        raise NotController from error
