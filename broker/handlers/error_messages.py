"""What a client is told of a failure in words."""

from __future__ import annotations

from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError

#: Characters.  What a failure quotes may be as long as a request; a string has 32 KB at most.
WORDS_LENGTH_MAX = 2000


def words(failure: KafkaError | None) -> str | None:
    """None where they would say no more than the code does, and of mistakes of our own."""
    if failure is None or failure.error is ErrorCode.UNKNOWN_SERVER_ERROR:
        return None
    message = failure.message
    if message == failure.error.message:
        return None
    return message if len(message) <= WORDS_LENGTH_MAX else f"{message[:WORDS_LENGTH_MAX]}..."
