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
PASSING = frozenset(
    {"NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"}
)
PAUSE_S = 0.1


Ask = Callable[[list[str]], Mapping[str, Future[Any]]]


def answers(ask: Ask, groups: list[str], *, timeout_s: float) -> dict[str, Future[Any]]:
    """For each group, once it is not what will pass, or the time is up."""
    futures = dict(ask(groups)) if groups else {}
    deadline = time.monotonic() + timeout_s
    while True:
        early = [group for group, future in futures.items() if will_pass(future.exception())]
        if not early or time.monotonic() > deadline:
            return futures
        time.sleep(PAUSE_S)
        futures |= ask(early)


def will_pass(failure: object) -> bool:
    error = error_in(failure)
    return error is not None and error.name() in PASSING


def error_in(failure: object) -> KafkaError | None:
    """The library sometimes raises or returns it wrapped, sometimes as it is."""
    from confluent_kafka import KafkaError, KafkaException

    bare = failure.args[0] if isinstance(failure, KafkaException) else failure
    return bare if isinstance(bare, KafkaError) else None
