"""Answers of a group's coordinator, once there is one.

The first question about a group in a new cluster has the log of offsets made, and after a restart
that log is read first.  In between a coordinator refuses; the library hands that on, so it is
asked again here until the time is up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

#: What a coordinator, or a broker that is not it, says for a while.
RETRIABLE_ERRORS = frozenset(
    {"NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"}
)
RETRY_BACKOFF_S = 0.1


SendRequest = Callable[[list[str]], Mapping[str, Future[Any]]]


def send_with_retries(
    send: SendRequest, groups: list[str], *, timeout_s: float
) -> dict[str, Future[Any]]:
    """For each group, once it is not what will pass, or the time is up."""
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
    """The library sometimes raises or returns it wrapped, sometimes as it is."""
    from confluent_kafka import KafkaError, KafkaException

    error = exception.args[0] if isinstance(exception, KafkaException) else exception
    return error if isinstance(error, KafkaError) else None
