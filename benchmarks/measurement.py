"""The metrics of a load: rates, latencies, and the broker's CPU time per request and per GB.

The key of a metric is the name under which it is printed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from broker_targets import Target
from client_drivers import LoadFailed, LoadResult
from confluent_kafka.admin import AdminClient, NewTopic
from raw_driver import send_and_receive

from odradek.protocol.api.list_offsets import ListOffsetsRequest
from odradek.protocol.api_keys import ApiKey

MB, GB = 1024 * 1024, 1e9
#: Below this amount of data, CPU time per GB is too inaccurate to report.
CPU_PER_GB_BYTES_MIN = 10 * MB
TOPIC_SETTINGS = {"file.delete.delay.ms": "1000"}
ADMIN_TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.05

CPU_PER_REQUEST = "CPU us/req"
LATEST_TIMESTAMP = -1

Metrics = dict[str, float]
Load = Callable[[Target, "LoadOptions"], "Measurement"]
_topic_numbers = count(1)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The duration and size of a load, and the tools that it may use."""

    seconds: float
    filled_mb: int
    jars: Path | None = None
    rdkafka_performance: Path | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    driver: str
    metrics: Metrics


@contextmanager
def temporary_topic(
    target: Target, partitions: int = 1, settings: Mapping[str, str] = TOPIC_SETTINGS
) -> Iterator[str]:
    """Create a topic, yield its name, and delete the topic at the end."""
    admin = AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 0})
    name = f"benchmark-{time.time_ns() // 1_000_000 % 10**9}-{next(_topic_numbers)}"
    new_topic = NewTopic(name, partitions, 1, config=dict(settings))
    admin.create_topics([new_topic])[name].result(ADMIN_TIMEOUT_S)
    _wait_until_leaders_elected(target, name, partitions)
    try:
        yield name
    finally:
        admin.delete_topics([name])[name].result(ADMIN_TIMEOUT_S)


def _wait_until_leaders_elected(target: Target, name: str, partitions: int) -> None:
    """Wait until every partition has a leader.

    Kafka reports a topic as created before all of its partitions can be used.
    """
    partition_class = ListOffsetsRequest.Topic.Partition
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsRequest.Topic(
                name=name,
                partitions=[
                    partition_class(partition_index=each, timestamp=LATEST_TIMESTAMP)
                    for each in range(partitions)
                ],
            )
        ],
    )
    deadline = time.monotonic() + ADMIN_TIMEOUT_S
    while time.monotonic() < deadline:
        (topic,) = send_and_receive(target.bootstrap, ApiKey.LIST_OFFSETS, 1, request).topics
        if not any(each.error_code for each in topic.partitions):
            return
        time.sleep(POLL_INTERVAL_S)
    raise LoadFailed(f"topic {name} has partitions without a leader")


def measure_load(target: Target, load: Callable[[], LoadResult]) -> Measurement:
    """Run the load and return its rates, latencies and the CPU time that the broker used."""
    before_s = target.cpu_s()
    result = load()
    after_s = target.cpu_s()
    metrics = _rate_metrics(result)
    if before_s is not None and after_s is not None:
        spent_s = after_s - before_s
        if result.requests:
            metrics[CPU_PER_REQUEST] = spent_s / result.requests * 1e6
        if result.size_bytes > CPU_PER_GB_BYTES_MIN:
            metrics["CPU s/GB"] = spent_s / result.size_bytes * GB
    return Measurement(result.driver, metrics)


def _rate_metrics(result: LoadResult) -> Metrics:
    metrics: Metrics = {}
    if result.records:
        metrics["msg/s"] = result.records / result.seconds
        metrics["MB/s"] = result.size_bytes / result.seconds / 1e6
    if result.requests:
        metrics["req/s"] = result.requests / result.seconds
    if result.latency is not None:
        metrics["p50 ms"] = result.latency.p50_ms
        metrics["p99 ms"] = result.latency.p99_ms
    return metrics
