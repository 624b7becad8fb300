"""The broker in other conditions: just started, beside much that is idle, while it compacts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager

from broker_clients import LeftOut
from broker_figures import (
    ADMIN_TIMEOUT_S,
    COST,
    MB,
    TOPIC_SETTINGS,
    Load,
    Measured,
    Tools,
    costed,
    topic,
)
from broker_raw import (
    ask,
    batch_of,
    connect,
    metadata_frame,
    produce_frame,
    produce_verdict,
)
from broker_raw_loads import Shape, drive_all, produced, raw_produced
from broker_sides import Side
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from odradek.protocol.api.describe_log_dirs import DescribeLogDirsRequest
from odradek.protocol.api_keys import ApiKey

IDLE = 1000
#: What a driver's process takes to begin.
PROCESS_START_S = 1.0
POLL_INTERVAL_S = 0.1
KEYED_RECORD_BYTES = 1024
KEYS = 20_000
SEGMENT_BYTES = 16 * MB


def started(side: Side, _: Tools) -> Measured:
    if side.start_s is None or side.start_cpu_s is None:
        raise LeftOut("this broker was not started here")
    return Measured("raw sockets", {"start s": side.start_s, "CPU s": side.start_cpu_s})


def memory(side: Side, _: Tools) -> Measured:
    idle, now = side.idle_rss_mib, side.rss_mib()
    if idle is None or now is None:
        raise LeftOut("the process of this broker is not known")
    return Measured("/proc", {"idle MiB": idle, "RSS MiB": now})


def beside_idle_partitions(shape: Shape) -> Load:
    def load(side: Side, tools: Tools) -> Measured:
        with topic(side, shape.partitions) as name:
            return compared(lambda: _produce(side, name, shape, tools), lambda: topic(side, IDLE))

    return load


def beside_idle_connections(shape: Shape) -> Load:
    def load(side: Side, tools: Tools) -> Measured:
        with topic(side, shape.partitions) as name:
            return compared(lambda: _produce(side, name, shape, tools), lambda: _connected(side))

    return load


def _produce(side: Side, name: str, shape: Shape, tools: Tools) -> Measured:
    return costed(side, lambda: produced(side, name, shape, tools.seconds))


@contextmanager
def _connected(side: Side) -> Iterator[None]:
    """By connections that have been answered once."""
    with ExitStack() as endings:
        for _ in range(IDLE):
            connection = endings.enter_context(connect(side.bootstrap))
            connection.sendall(metadata_frame())
            connection.recv(1)
        yield


def compared(
    load: Callable[[], Measured], crowd: Callable[[], AbstractContextManager[object]]
) -> Measured:
    """Alone, twice in the crowd, and alone again; of each pair the better one counts."""
    first = load()
    with crowd():
        crowded = [load(), load()]
    alone = [first, load()]
    figures = {
        "req/s": max(each.figures["req/s"] for each in crowded),
        "alone": max(each.figures["req/s"] for each in alone),
    }
    figures["share"] = figures["req/s"] / figures["alone"]
    if COST in first.figures:
        figures[COST] = min(each.figures[COST] for each in crowded)
        figures[f"{COST} alone"] = min(each.figures[COST] for each in alone)
    return Measured(first.driver, figures)


def while_compacting(shape: Shape) -> Load:
    """Y8: from when a topic of much redundancy is to be compacted until it has shrunk."""

    def load(side: Side, tools: Tools) -> Measured:
        settings = {**TOPIC_SETTINGS, "segment.bytes": str(SEGMENT_BYTES)}
        with topic(side) as name, topic(side, settings=settings) as redundant:
            _write_redundantly(side, redundant, 4 * tools.filled_mb * MB)
            with ThreadPoolExecutor(1) as aside:
                seconds = 4 * tools.seconds
                driving = aside.submit(raw_produced, side, name, shape, seconds)
                time.sleep(tools.seconds + PROCESS_START_S)
                start_s, end_s = _compact(side, redundant, time.time() + 3 * tools.seconds)
            outcome = driving.result()
        if end_s > outcome.began_at_s + outcome.seconds:
            raise LeftOut("the load ended before the compaction did")
        alone = outcome.rate_between(start_s - tools.seconds, start_s)
        during = outcome.rate_between(start_s, end_s)
        figures = {
            "req/s": during,
            "alone": alone,
            "share": during / alone,
            "compaction s": end_s - start_s,
        }
        return Measured("raw sockets", figures)

    return load


def _compact(side: Side, name: str, deadline_s: float) -> tuple[float, float]:
    """When it was told to, and when it had shrunk to less than half; by the wall clock."""
    full_bytes = _size_bytes(side, name)
    start_s = time.time()
    _set(side, name, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    while time.time() < deadline_s:
        if _size_bytes(side, name) < full_bytes / 2:
            return start_s, time.time()
        time.sleep(POLL_INTERVAL_S)
    raise LeftOut("the compaction did not end while it was measured")


def _size_bytes(side: Side, name: str) -> int:
    request = DescribeLogDirsRequest(
        topics=[DescribeLogDirsRequest.Topic(topic=name, partitions=[0])]
    )
    answer = ask(side.bootstrap, ApiKey.DESCRIBE_LOG_DIRS, 1, request)
    return sum(
        partition.partition_size
        for directory in answer.results
        for each in directory.topics
        for partition in each.partitions
    )


def _write_redundantly(side: Side, name: str, size_bytes: int) -> None:
    """Every key again and again."""
    batches, first_key = [], 0
    while first_key < KEYS:
        batch = batch_of(KEYED_RECORD_BYTES, batch_bytes=MB // 2, first_key=first_key)
        batches.append(batch)
        first_key += batch.count
    frames = tuple(produce_frame(name, 0, each) for each in batches)
    drive_all(side.bootstrap, frames, produce_verdict(name), size_bytes // len(batches[0].records))


def _set(side: Side, name: str, settings: Mapping[str, str]) -> None:
    entries = [
        ConfigEntry(setting, to, incremental_operation=AlterConfigOpType.SET)
        for setting, to in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": side.bootstrap, "log_level": 0})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(ADMIN_TIMEOUT_S)
