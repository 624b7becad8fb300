"""Answers that tell of what is in a group's log: they wait until it is replicated.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Protocol, TypeVar

from odradek.broker.call import Parked
from odradek.broker.coordinator.log_failures import OF_A_CHANGE, told
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError

Answered = TypeVar("Answered")


class Log(Protocol):
    """What is to be replicated."""

    @property
    def is_settled(self) -> bool: ...

    async def wait_until_settled(self) -> None: ...


def when_replicated(
    log: Log, answer: Answered, failures: Mapping[ErrorCode, ErrorCode] = OF_A_CHANGE
) -> Answered | Parked[Answered]:
    """Once all that is in the log is; raises what the client is told if it is not."""
    if log.is_settled:
        return answer
    return Parked(partial(_replicated, log, answer, failures), ends_alone=True)


async def _replicated(
    log: Log, answer: Answered, failures: Mapping[ErrorCode, ErrorCode]
) -> Answered:
    try:
        await log.wait_until_settled()
    except KafkaError as failure:
        raise told(failure, failures) from failure
    return answer
