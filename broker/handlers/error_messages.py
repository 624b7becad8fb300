"""What a client is told of a failure in words."""

from __future__ import annotations

from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError

#: Characters.  What a failure quotes may be as long as a request; a string has 32 KB at most.
ERROR_MESSAGE_LENGTH_MAX = 2000


def error_message(error: KafkaError | None) -> str | None:
    """None where they would say no more than the code does, and of mistakes of our own."""
    if error is None or error.error_code is ErrorCode.UNKNOWN_SERVER_ERROR:
        return None
    message = error.message
    if message == error.error_code.message:
        return None
    return (
        message
        if len(message) <= ERROR_MESSAGE_LENGTH_MAX
        else f"{message[:ERROR_MESSAGE_LENGTH_MAX]}..."
    )
