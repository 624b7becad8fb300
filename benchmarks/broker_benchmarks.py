"""The table of measures: a name to ask for it by, its load, and what is to be reached."""

from __future__ import annotations

from collections.abc import Mapping

from broker_client_loads import (
    KB,
    LARGEST_BATCH_BYTES,
    clients_at_the_tail,
    clients_consume,
    clients_produce,
    consume_large,
    java_consumed,
    java_produced,
    latency,
    produce_large,
)
from broker_conditions import (
    beside_idle_connections,
    beside_idle_partitions,
    memory,
    started,
    while_compacting,
)
from broker_raw_loads import Shape, idle_long_polls, raw_consume, raw_produce
from broker_runs import Goal, Measure


def _produce_requests(connections: int, in_flight: int, ratio: float) -> Measure:
    shape = Shape(connections=connections, in_flight=in_flight)
    return Measure(raw_produce(shape), (Goal("req/s", ratio),))


def _raw(record_bytes: int, batch_bytes: int, partitions: int) -> Measure:
    return Measure(raw_produce(Shape(record_bytes, batch_bytes, partitions)))


MEASURES: Mapping[str, Measure] = {
    "start": Measure(started, (Goal("start s", 0.5, of_kafka=False),), is_repeated=False),
    # Requests of one record.
    "requests-1x5": _produce_requests(1, 5, 2.0),
    "requests-10x5": _produce_requests(10, 5, 1.0),
    "requests-100x1": _produce_requests(100, 1, 1.0),
    "requests-500x1": _produce_requests(500, 1, 0.7),
    "requests-100-partitions": _raw(100, 0, 100),
    # Batches, by raw sockets.
    "batches-16KB-100B": _raw(100, 16 * KB, 1),
    "batches-16KB-1KB": _raw(KB, 16 * KB, 1),
    "batches-16KB-1KB-100-partitions": _raw(KB, 16 * KB, 100),
    "batches-1MB-100B": _raw(100, LARGEST_BATCH_BYTES, 1),
    "batches-1MB-1KB": _raw(KB, LARGEST_BATCH_BYTES, 1),
    "batches-1MB-1KB-100-partitions": _raw(KB, LARGEST_BATCH_BYTES, 100),
    # Producers.
    "produce-large-100B": Measure(produce_large(100), (Goal("msg/s", 1.2),)),
    "produce-large-1KB": Measure(produce_large(KB), (Goal("msg/s", 1.2),)),
    "produce-16KB-100B": Measure(java_produced(100), (Goal("msg/s", 1.2),)),
    "produce-16KB-1KB": Measure(java_produced(KB), (Goal("msg/s", 1.2),)),
    "produce-clients-1KB": Measure(clients_produce(KB, partitions=1), (Goal("CPU s/GB", 0.8),)),
    "produce-clients-1KB-100-partitions": Measure(clients_produce(KB, partitions=100)),
    # Consumers.
    "consume-100B": Measure(consume_large(100), (Goal("msg/s", 1.0),)),
    "consume-1KB": Measure(consume_large(KB), (Goal("msg/s", 1.0),)),
    "consume-16KB-batches": Measure(raw_consume(Shape(KB, 16 * KB, in_flight=2))),
    "consume-100-partitions": Measure(raw_consume(Shape(KB, 16 * KB, 100, in_flight=2))),
    "consume-clients-1KB": Measure(clients_consume(KB, partitions=1), (Goal("CPU s/GB", 0.5),)),
    "consume-java-1KB": Measure(java_consumed(KB)),
    "consume-tail-1KB": Measure(clients_at_the_tail(KB)),
    "latency": Measure(latency(100), (Goal("p50 ms", 0.8), Goal("p99 ms", 1.0))),
    "long-polls-100x1": Measure(idle_long_polls(Shape(connections=100, in_flight=1))),
    # Other conditions.
    "idle-partitions": Measure(
        beside_idle_partitions(Shape(connections=10)), (Goal("share", 0.9, of_kafka=False),)
    ),
    "idle-connections": Measure(
        beside_idle_connections(Shape(connections=10)), (Goal("share", 0.9, of_kafka=False),)
    ),
    # Y8: requests are answered while much is compacted.
    "compaction": Measure(
        while_compacting(Shape(connections=10)), (Goal("share", 0.7, of_kafka=False),)
    ),
    "memory": Measure(
        memory,
        (Goal("idle MiB", 60, of_kafka=False), Goal("RSS MiB", 120, of_kafka=False)),
        is_repeated=False,
    ),
}
