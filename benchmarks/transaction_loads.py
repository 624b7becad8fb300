"""Loads with transactions: many small ones, and a stream of records with periodic commits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from broker_targets import Target
from client_drivers import (
    FLUSH_TIMEOUT_S,
    PRODUCE_CALLS_PER_POLL,
    TIMEOUT_S,
    BenchmarkSkipped,
    ClientLoad,
    Latency,
    LoadFailed,
    LoadResult,
    java_produce,
    run_in_processes,
)
from confluent_kafka import KafkaException, Producer
from measurement import (
    CPU_PER_REQUEST,
    Load,
    LoadOptions,
    Measurement,
    measure_load,
    temporary_topic,
)
from raw_driver import send_and_receive
from transaction_driver import TRANSACTION_V2_VERSIONS, TransactionLoad, run_transaction_load

from odradek.protocol.api.api_versions import ApiVersionsRequest
from odradek.protocol.api_keys import ApiKey

RECORD_BYTES = 100
THROUGHPUT_RECORD_BYTES = 1024
TRANSACTION_S = 0.1
QUEUE_KB = 8 * 1024
#: The number of records that ProducerPerformance sends per second of the measurement.
RECORDS_PER_S = 50_000


@dataclass(frozen=True, slots=True)
class TransactionShape:
    """The records per transaction, and the number of concurrent producers."""

    records: int
    producers: int = 1
    #: Version 2 (KIP-890): no AddPartitionsToTxn, and a new epoch for each transaction.
    is_transaction_v2: bool = False


def transactions(shape: TransactionShape) -> Load:
    def load(target: Target, options: LoadOptions) -> Measurement:
        if shape.is_transaction_v2 and not _supports_transaction_v2(target):
            raise BenchmarkSkipped("the broker does not support transactions version 2")
        with temporary_topic(target, shape.producers) as name:
            measurement = measure_load(
                target, lambda: _run_transactions(target, name, shape, options.seconds)
            )
        metrics = dict(measurement.metrics)
        metrics["txn/s"] = metrics.pop("req/s")
        if CPU_PER_REQUEST in metrics:
            metrics["CPU us/txn"] = metrics.pop(CPU_PER_REQUEST)
        return Measurement(measurement.driver, metrics)

    return load


def _run_transactions(
    target: Target, name: str, shape: TransactionShape, seconds: float
) -> LoadResult:
    transactional_ids = tuple(
        f"benchmark-{time.time_ns()}-{each}" for each in range(shape.producers)
    )
    load = TransactionLoad(
        address=target.bootstrap,
        topic=name,
        transactional_ids=transactional_ids,
        records=shape.records,
        record_bytes=RECORD_BYTES,
        seconds=seconds,
        is_transaction_v2=shape.is_transaction_v2,
    )
    (result,) = run_in_processes(run_transaction_load, [load])
    records = result.transactions * shape.records
    return LoadResult(
        f"raw sockets, {shape.producers} producers",
        records,
        records * RECORD_BYTES,
        result.seconds,
        result.transactions,
        Latency.from_samples(result.latencies_ms),
    )


def _supports_transaction_v2(target: Target) -> bool:
    """Return whether the feature is finalized, and not only supported."""
    supported = send_and_receive(
        target.bootstrap, ApiKey.API_VERSIONS, 3, _api_versions_request()
    ).api_keys
    versions: dict[int, int] = {each.api_key: each.max_version for each in supported}
    return versions.get(ApiKey.END_TXN, 0) >= TRANSACTION_V2_VERSIONS[ApiKey.END_TXN]


def _api_versions_request() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="benchmark", client_software_version="1")


def periodic_commits() -> Load:
    """Produce and commit with librdkafka."""

    def load(target: Target, options: LoadOptions) -> Measurement:
        with temporary_topic(target) as name:
            plain = _idempotent_load(target, options, name, linger_ms=5)
            return _compare_alternating(
                lambda: run_in_processes(produce_idempotent, [plain])[0],
                lambda: run_in_processes(produce_transactional, [_transactional_load(plain)])[0],
            )

    return load


def java_periodic_commits() -> Load:
    """Produce and commit with Kafka's producer."""

    def load(target: Target, options: LoadOptions) -> Measurement:
        jars = options.jars
        if jars is None:
            raise BenchmarkSkipped("Kafka's jars are not available; see the message at the start")
        interval_ms = str(int(TRANSACTION_S * 1000))
        with temporary_topic(target) as name:
            plain = _idempotent_load(target, options, name, linger_ms=5)
            return _compare_alternating(
                lambda: java_produce(jars, plain),
                lambda: java_produce(
                    jars, _transactional_load(plain), "--transaction-duration-ms", interval_ms
                ),
            )

    return load


def _idempotent_load(
    target: Target, options: LoadOptions, name: str, *, linger_ms: int
) -> ClientLoad:
    """The baseline is idempotent, because a transactional producer is idempotent too."""
    return ClientLoad(
        bootstrap=target.bootstrap,
        topic=name,
        record_bytes=THROUGHPUT_RECORD_BYTES,
        records=int(options.seconds * RECORDS_PER_S),
        seconds=options.seconds,
        settings={"acks": "all", "enable.idempotence": "true", "linger.ms": linger_ms},
    )


def _transactional_load(load: ClientLoad) -> ClientLoad:
    settings = {"transactional.id": f"benchmark-{time.time_ns()}", **load.settings}
    return replace(load, settings=settings)


def _compare_alternating(
    idempotent: Callable[[], LoadResult], transactional: Callable[[], LoadResult]
) -> Measurement:
    """Run each twice, alternating; the better run counts."""
    idempotent_results, transactional_results = [], []
    for _ in range(2):
        idempotent_results.append(idempotent())
        transactional_results.append(transactional())
    best = {
        "msg/s": max(map(_records_per_s, transactional_results)),
        "baseline": max(map(_records_per_s, idempotent_results)),
    }
    return Measurement(
        transactional_results[0].driver, {**best, "share": best["msg/s"] / best["baseline"]}
    )


def _records_per_s(result: LoadResult) -> float:
    return result.records / result.seconds


def produce_idempotent(load: ClientLoad) -> LoadResult:
    producer = _producer(load)
    return _run_produce(producer, load, commit_interval_s=None)


def produce_transactional(load: ClientLoad) -> LoadResult:
    producer = _producer(load)
    producer.init_transactions(TIMEOUT_S)
    return _run_produce(producer, load, commit_interval_s=TRANSACTION_S)


def _producer(load: ClientLoad) -> Producer:
    # The queue of a transaction delays its commit; librdkafka would queue up to 1 GB.
    queue_settings = {"queue.buffering.max.kbytes": QUEUE_KB}
    producer = Producer({"bootstrap.servers": load.bootstrap, **queue_settings, **load.settings})
    producer.list_topics(load.topic, timeout=TIMEOUT_S)
    return producer


def _run_produce(
    producer: Producer, load: ClientLoad, *, commit_interval_s: float | None
) -> LoadResult:
    """Produce until all records are acknowledged, and committed if they are in transactions."""
    value, sent = bytes(load.record_bytes), 0
    started = time.perf_counter()
    try:
        while (now := time.perf_counter()) - started < load.seconds:
            if commit_interval_s is not None:
                producer.begin_transaction()
            deadline = (
                now + commit_interval_s if commit_interval_s is not None else started + load.seconds
            )
            sent += _send_until(producer, load.topic, value, deadline)
            if commit_interval_s is not None:
                producer.commit_transaction(TIMEOUT_S)
        undelivered = producer.flush(FLUSH_TIMEOUT_S)
    except KafkaException as error:
        raise LoadFailed(str(error)) from error
    seconds = time.perf_counter() - started
    if undelivered:
        raise LoadFailed(f"{undelivered} not delivered")
    return LoadResult("librdkafka", sent, sent * load.record_bytes, seconds)


def _send_until(producer: Producer, topic_name: str, value: bytes, deadline: float) -> int:
    sent = 0
    while time.perf_counter() < deadline:
        try:
            for _ in range(PRODUCE_CALLS_PER_POLL):
                producer.produce(topic_name, value)
                sent += 1
            producer.poll(0)
        except BufferError:
            producer.poll(0.005)  # short, so only a part of the queue is sent meanwhile
    return sent
