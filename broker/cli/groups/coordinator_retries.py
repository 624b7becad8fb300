"""Retries a request until the group coordinator is available.

The first request about a group in a new cluster creates __consumer_offsets; after a restart, the
coordinator loads it first.  Until then requests fail with a retriable error.  confluent-kafka does
not retry them, so this module does, until the timeout.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

#: Temporary errors of a coordinator, or of a broker that is not the coordinator.
RETRIABLE_ERRORS = frozenset(
    {"NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"}
)
RETRY_BACKOFF_S = 0.1


SendRequest = Callable[[list[str]], Mapping[str, Future[Any]]]


def send_with_retries(
    send: SendRequest, groups: list[str], *, timeout_s: float
) -> dict[str, Future[Any]]:
    """Return a future for each group; retry retriable errors until the timeout."""
    futures = dict(send(groups)) if groups else {}
    deadline = time.monotonic() + timeout_s
    while True:
        retriable = [group for group, future in futures.items() if is_retriable(future.exception())]
        if not retriable or time.monotonic() > deadline:
            return futures
        time.sleep(RETRY_BACKOFF_S)
        futures |= send(retriable)


def is_retriable(exception: object) -> bool:
    error = extract_kafka_error(exception)
    return error is not None and error.name() in RETRIABLE_ERRORS


def extract_kafka_error(exception: object) -> KafkaError | None:
    """Unwrap the error: the library raises or returns it with or without a KafkaException."""
    from confluent_kafka import KafkaError, KafkaException

    error = exception.args[0] if isinstance(exception, KafkaException) else exception
    return error if isinstance(error, KafkaError) else None
