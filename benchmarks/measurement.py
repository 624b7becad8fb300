"""Figures of a load: rates, latencies, and what the broker spent, divided by what it served.

A figure has the name that it is printed with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from broker_clients import LoadFailed, Served
from broker_raw import ask
from broker_sides import Side
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.api.list_offsets import ListOffsetsRequest
from odradek.protocol.api_keys import ApiKey

MB, GB = 1024 * 1024, 1e9
#: Of less, CPU time is not worth dividing.
COSTED_BYTES_MIN = 10 * MB
TOPIC_SETTINGS = {"file.delete.delay.ms": "1000"}
ADMIN_TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.05

COST = "CPU us/req"
LATEST = -1

Figures = dict[str, float]
Load = Callable[[Side, "Tools"], "Measured"]
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Tools:
    """What there is to make a load with, and how much of it."""

    seconds: float
    filled_mb: int
    jars: Path | None = None
    rdkafka_performance: Path | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    driver: str
    figures: Figures


@contextmanager
def topic(
    side: Side, partitions: int = 1, settings: Mapping[str, str] = TOPIC_SETTINGS
) -> Iterator[str]:
    """A topic of this name, until the end."""
    admin = AdminClient({"bootstrap.servers": side.bootstrap, "log_level": 0})
    name = f"benchmark-{time.time_ns() // 1_000_000 % 10**9}-{next(_numbers)}"
    wanted = NewTopic(name, partitions, 1, config=dict(settings))
    admin.create_topics([wanted])[name].result(ADMIN_TIMEOUT_S)
    _wait_until_led(side, name, partitions)
    try:
        yield name
    finally:
        admin.delete_topics([name])[name].result(ADMIN_TIMEOUT_S)


def _wait_until_led(side: Side, name: str, partitions: int) -> None:
    """Kafka says that a topic is created before all of its partitions can be used."""
    asked = ListOffsetsRequest.Topic.Partition
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsRequest.Topic(
                name=name,
                partitions=[
                    asked(partition_index=each, timestamp=LATEST) for each in range(partitions)
                ],
            )
        ],
    )
    deadline = time.monotonic() + ADMIN_TIMEOUT_S
    while time.monotonic() < deadline:
        (answer,) = ask(side.bootstrap, ApiKey.LIST_OFFSETS, 1, request).topics
        if not any(each.error_code for each in answer.partitions):
            return
        time.sleep(POLL_INTERVAL_S)
    raise LoadFailed(f"{name} cannot be used")


def costed(side: Side, load: Callable[[], Served]) -> Measured:
    """What was served in how much time, and what the broker spent on it."""
    before_s = side.cpu_s()
    served = load()
    after_s = side.cpu_s()
    figures = _rates(served)
    if before_s is not None and after_s is not None:
        spent_s = after_s - before_s
        if served.requests:
            figures[COST] = spent_s / served.requests * 1e6
        if served.size_bytes > COSTED_BYTES_MIN:
            figures["CPU s/GB"] = spent_s / served.size_bytes * GB
    return Measured(served.driver, figures)


def _rates(served: Served) -> Figures:
    figures: Figures = {}
    if served.records:
        figures["msg/s"] = served.records / served.seconds
        figures["MB/s"] = served.size_bytes / served.seconds / 1e6
    if served.requests:
        figures["req/s"] = served.requests / served.seconds
    if served.latency is not None:
        figures["p50 ms"] = served.latency.p50_ms
        figures["p99 ms"] = served.latency.p99_ms
    return figures
