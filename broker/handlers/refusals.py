"""What a client is told of a failure in words."""

from __future__ import annotations

from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError


def words(failure: KafkaError | None) -> str | None:
    """None where they would say no more than the code does, and of mistakes of our own."""
    if failure is None or failure.error is ErrorCode.UNKNOWN_SERVER_ERROR:
        return None
    return None if failure.message == failure.error.message else failure.message
