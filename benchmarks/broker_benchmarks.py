"""The benchmarks of broker.py: the name for --only, the load and the goals of each."""

from __future__ import annotations

from collections.abc import Mapping

from benchmark_runner import Benchmark, Goal
from broker_conditions import (
    memory,
    startup,
    while_compacting,
    with_idle_connections,
    with_idle_partitions,
)
from client_loads import (
    KB,
    LARGEST_BATCH_BYTES,
    consume_at_tail,
    consume_large,
    consume_with_clients,
    consume_with_java,
    latency,
    produce_large,
    produce_with_clients,
    produce_with_java,
)
from raw_loads import LoadShape, idle_long_polls, raw_consume, raw_produce


def _produce_requests_benchmark(connections: int, in_flight: int, ratio: float) -> Benchmark:
    shape = LoadShape(connections=connections, in_flight=in_flight)
    return Benchmark(raw_produce(shape), (Goal("req/s", ratio),))


def _produce_batches_benchmark(record_bytes: int, batch_bytes: int, partitions: int) -> Benchmark:
    return Benchmark(raw_produce(LoadShape(record_bytes, batch_bytes, partitions)))


BENCHMARKS: Mapping[str, Benchmark] = {
    "start": Benchmark(
        startup, (Goal("start s", 0.5, relative_to_kafka=False),), is_repeated=False
    ),
    # Produce requests with one record.
    "requests-1x5": _produce_requests_benchmark(1, 5, 2.0),
    "requests-10x5": _produce_requests_benchmark(10, 5, 1.0),
    "requests-100x1": _produce_requests_benchmark(100, 1, 1.0),
    "requests-500x1": _produce_requests_benchmark(500, 1, 0.7),
    "requests-100-partitions": _produce_batches_benchmark(100, 0, 100),
    # Produce requests with batches, by raw sockets.
    "batches-16KB-100B": _produce_batches_benchmark(100, 16 * KB, 1),
    "batches-16KB-1KB": _produce_batches_benchmark(KB, 16 * KB, 1),
    "batches-16KB-1KB-100-partitions": _produce_batches_benchmark(KB, 16 * KB, 100),
    "batches-1MB-100B": _produce_batches_benchmark(100, LARGEST_BATCH_BYTES, 1),
    "batches-1MB-1KB": _produce_batches_benchmark(KB, LARGEST_BATCH_BYTES, 1),
    "batches-1MB-1KB-100-partitions": _produce_batches_benchmark(KB, LARGEST_BATCH_BYTES, 100),
    # Producers.
    "produce-large-100B": Benchmark(produce_large(100), (Goal("msg/s", 1.2),)),
    "produce-large-1KB": Benchmark(produce_large(KB), (Goal("msg/s", 1.2),)),
    "produce-16KB-100B": Benchmark(produce_with_java(100), (Goal("msg/s", 1.2),)),
    "produce-16KB-1KB": Benchmark(produce_with_java(KB), (Goal("msg/s", 1.2),)),
    "produce-clients-1KB": Benchmark(
        produce_with_clients(KB, partitions=1), (Goal("CPU s/GB", 0.8),)
    ),
    "produce-clients-1KB-100-partitions": Benchmark(produce_with_clients(KB, partitions=100)),
    # Consumers.
    "consume-100B": Benchmark(consume_large(100), (Goal("msg/s", 1.0),)),
    "consume-1KB": Benchmark(consume_large(KB), (Goal("msg/s", 1.0),)),
    "consume-16KB-batches": Benchmark(raw_consume(LoadShape(KB, 16 * KB, in_flight=2))),
    "consume-100-partitions": Benchmark(raw_consume(LoadShape(KB, 16 * KB, 100, in_flight=2))),
    "consume-clients-1KB": Benchmark(
        consume_with_clients(KB, partitions=1), (Goal("CPU s/GB", 0.5),)
    ),
    "consume-java-1KB": Benchmark(consume_with_java(KB)),
    "consume-tail-1KB": Benchmark(consume_at_tail(KB)),
    "latency": Benchmark(latency(100), (Goal("p50 ms", 0.8), Goal("p99 ms", 1.0))),
    "long-polls-100x1": Benchmark(idle_long_polls(LoadShape(connections=100, in_flight=1))),
    # Other conditions.
    "idle-partitions": Benchmark(
        with_idle_partitions(LoadShape(connections=10)),
        (Goal("share", 0.9, relative_to_kafka=False),),
    ),
    "idle-connections": Benchmark(
        with_idle_connections(LoadShape(connections=10)),
        (Goal("share", 0.9, relative_to_kafka=False),),
    ),
    # Y8: requests are served during a large compaction.
    "compaction": Benchmark(
        while_compacting(LoadShape(connections=10)), (Goal("share", 0.7, relative_to_kafka=False),)
    ),
    "memory": Benchmark(
        memory,
        (
            Goal("idle MiB", 60, relative_to_kafka=False),
            Goal("RSS MiB", 120, relative_to_kafka=False),
        ),
        is_repeated=False,
    ),
}
