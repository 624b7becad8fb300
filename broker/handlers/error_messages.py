"""Error messages in responses to clients."""

from __future__ import annotations

from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError

#: In characters.  A message may quote a value as long as a request; a string has 32 KB at most.
ERROR_MESSAGE_LENGTH_MAX = 2000


def error_message(error: KafkaError | None) -> str | None:
    """Return None for an unexpected error, or if the message says no more than the code."""
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
