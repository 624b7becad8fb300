"""Benchmarks under special conditions: start-up, memory, idle resources, compaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager

from broker_targets import Target
from client_drivers import BenchmarkSkipped
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from measurement import (
    ADMIN_TIMEOUT_S,
    CPU_PER_REQUEST,
    MB,
    TOPIC_SETTINGS,
    Load,
    LoadOptions,
    Measurement,
    measure_load,
    temporary_topic,
)
from raw_driver import (
    build_batch,
    connect,
    metadata_frame,
    produce_error_code_position,
    produce_frame,
    send_and_receive,
)
from raw_loads import LoadShape, run_produce, run_raw_produce, send_requests

from odradek.protocol.api.describe_log_dirs import DescribeLogDirsRequest
from odradek.protocol.api_keys import ApiKey

IDLE_COUNT = 1000
#: The time that a driver process takes to start.
PROCESS_START_S = 1.0
POLL_INTERVAL_S = 0.1
KEYED_RECORD_BYTES = 1024
KEYS = 20_000
SEGMENT_BYTES = 16 * MB


def startup(target: Target, _: LoadOptions) -> Measurement:
    if target.start_s is None or target.start_cpu_s is None:
        raise BenchmarkSkipped("this broker was not started by the benchmark")
    return Measurement("raw sockets", {"start s": target.start_s, "CPU s": target.start_cpu_s})


def memory(target: Target, _: LoadOptions) -> Measurement:
    idle, now = target.idle_rss_mib, target.rss_mib()
    if idle is None or now is None:
        raise BenchmarkSkipped("the process id of this broker is unknown")
    return Measurement("/proc", {"idle MiB": idle, "RSS MiB": now})


def with_idle_partitions(shape: LoadShape) -> Load:
    def load(target: Target, options: LoadOptions) -> Measurement:
        with temporary_topic(target, shape.partitions) as name:
            return compare_with_background(
                lambda: _produce(target, name, shape, options),
                lambda: temporary_topic(target, IDLE_COUNT),
            )

    return load


def with_idle_connections(shape: LoadShape) -> Load:
    def load(target: Target, options: LoadOptions) -> Measurement:
        with temporary_topic(target, shape.partitions) as name:
            return compare_with_background(
                lambda: _produce(target, name, shape, options), lambda: _idle_connections(target)
            )

    return load


def _produce(target: Target, name: str, shape: LoadShape, options: LoadOptions) -> Measurement:
    return measure_load(target, lambda: run_produce(target, name, shape, options.seconds))


@contextmanager
def _idle_connections(target: Target) -> Iterator[None]:
    """Hold connections open that have each received one response."""
    with ExitStack() as exit_stack:
        for _ in range(IDLE_COUNT):
            connection = exit_stack.enter_context(connect(target.bootstrap))
            connection.sendall(metadata_frame())
            connection.recv(1)
        yield


def compare_with_background(
    load: Callable[[], Measurement], background: Callable[[], AbstractContextManager[object]]
) -> Measurement:
    """Run the load alone, twice with the background, and alone again; the better of each counts."""
    first = load()
    with background():
        with_background = [load(), load()]
    without_background = [first, load()]
    metrics = {
        "req/s": max(each.metrics["req/s"] for each in with_background),
        "baseline": max(each.metrics["req/s"] for each in without_background),
    }
    metrics["share"] = metrics["req/s"] / metrics["baseline"]
    if CPU_PER_REQUEST in first.metrics:
        metrics[CPU_PER_REQUEST] = min(each.metrics[CPU_PER_REQUEST] for each in with_background)
        metrics[f"baseline {CPU_PER_REQUEST}"] = min(
            each.metrics[CPU_PER_REQUEST] for each in without_background
        )
    return Measurement(first.driver, metrics)


def while_compacting(shape: LoadShape) -> Load:
    """Y8: produce from before a compaction of a redundant topic starts until it has finished."""

    def load(target: Target, options: LoadOptions) -> Measurement:
        settings = {**TOPIC_SETTINGS, "segment.bytes": str(SEGMENT_BYTES)}
        with (
            temporary_topic(target) as name,
            temporary_topic(target, settings=settings) as redundant,
        ):
            _write_repeated_keys(target, redundant, 4 * options.filled_mb * MB)
            with ThreadPoolExecutor(1) as executor:
                seconds = 4 * options.seconds
                load_future = executor.submit(run_raw_produce, target, name, shape, seconds)
                time.sleep(options.seconds + PROCESS_START_S)
                start_s, end_s = _wait_for_compaction(
                    target, redundant, time.time() + 3 * options.seconds
                )
            result = load_future.result()
        if end_s > result.started_at_s + result.seconds:
            raise BenchmarkSkipped("the load ended before the compaction did")
        without_background = result.rate_between(start_s - options.seconds, start_s)
        during = result.rate_between(start_s, end_s)
        metrics = {
            "req/s": during,
            "baseline": without_background,
            "share": during / without_background,
            "compaction s": end_s - start_s,
        }
        return Measurement("raw sockets", metrics)

    return load


def _wait_for_compaction(target: Target, name: str, deadline_s: float) -> tuple[float, float]:
    """Compact the topic and wait until it is less than half as large.

    Return the wall-clock times at which the policy was changed and at which the topic had shrunk.
    """
    full_bytes = _size_bytes(target, name)
    start_s = time.time()
    _alter_configs(target, name, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    while time.time() < deadline_s:
        if _size_bytes(target, name) < full_bytes / 2:
            return start_s, time.time()
        time.sleep(POLL_INTERVAL_S)
    raise BenchmarkSkipped("the compaction did not finish during the measurement")


def _size_bytes(target: Target, name: str) -> int:
    request = DescribeLogDirsRequest(
        topics=[DescribeLogDirsRequest.Topic(topic=name, partitions=[0])]
    )
    response = send_and_receive(target.bootstrap, ApiKey.DESCRIBE_LOG_DIRS, 1, request)
    return sum(
        partition.partition_size
        for directory in response.results
        for each in directory.topics
        for partition in each.partitions
    )


def _write_repeated_keys(target: Target, name: str, size_bytes: int) -> None:
    """Write the same keys repeatedly."""
    batches, first_key = [], 0
    while first_key < KEYS:
        batch = build_batch(KEYED_RECORD_BYTES, batch_bytes=MB // 2, first_key=first_key)
        batches.append(batch)
        first_key += batch.count
    frames = tuple(produce_frame(name, 0, each) for each in batches)
    send_requests(
        target.bootstrap,
        frames,
        produce_error_code_position(name),
        size_bytes // len(batches[0].records),
    )


def _alter_configs(target: Target, name: str, settings: Mapping[str, str]) -> None:
    entries = [
        ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
        for setting, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 0})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(ADMIN_TIMEOUT_S)
