"""Loads by real clients, using the leanest client that is available; see client_drivers.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from broker_targets import Target
from client_drivers import (
    BenchmarkSkipped,
    ClientLoad,
    combine_results,
    java_consume,
    java_produce,
    librdkafka_consume,
    librdkafka_latency,
    librdkafka_produce,
    librdkafka_tail,
    rdkafka_consume,
    rdkafka_produce,
    run_in_processes,
)
from measurement import MB, Load, LoadOptions, Measurement, measure_load, temporary_topic
from raw_driver import send_and_receive
from raw_loads import LoadShape, fill_topic, raw_consume

from odradek.protocol.api.api_versions import ApiVersionsRequest
from odradek.protocol.api_keys import ApiKey

#: The largest batch that brokers accept by default.
LARGEST_BATCH_BYTES = 1_000_000
PROCESSES = 2
KB = 1024


def produce_large(record_bytes: int) -> Load:
    """Produce large batches with the leanest client that is available."""

    def load(target: Target, options: LoadOptions) -> Measurement:
        settings = {"batch.size": LARGEST_BATCH_BYTES, "linger.ms": 5}
        with temporary_topic(target) as name:
            client_load = _client_load(target, options, name, record_bytes, settings)
            if options.rdkafka_performance is not None:
                program = options.rdkafka_performance
                return measure_load(target, lambda: rdkafka_produce(program, client_load))
            if options.jars is not None:
                jars = options.jars
                return measure_load(target, lambda: java_produce(jars, client_load))
            return measure_load(
                target,
                lambda: combine_results(run_in_processes(librdkafka_produce, [client_load] * 2)),
            )

    return load


def produce_with_java(record_bytes: int, *, batch_bytes: int = 16 * KB) -> Load:
    def load(target: Target, options: LoadOptions) -> Measurement:
        jars = _require_jars(options)
        with temporary_topic(target) as name:
            client_load = _client_load(
                target, options, name, record_bytes, {"batch.size": batch_bytes}
            )
            return measure_load(target, lambda: java_produce(jars, client_load))

    return load


def consume_with_java(record_bytes: int) -> Load:
    def load(target: Target, options: LoadOptions) -> Measurement:
        jars = _require_jars(options)
        if not _supports_api(target, ApiKey.FIND_COORDINATOR):
            raise BenchmarkSkipped("ConsumerPerformance needs a group coordinator")
        with temporary_topic(target) as name:
            client_load = _fill_topic_for(target, options, name, record_bytes, partitions=1)
            return measure_load(target, lambda: java_consume(jars, client_load))

    return load


def consume_large(record_bytes: int) -> Load:
    """Consume from the start by rdkafka_performance if available, otherwise by raw sockets."""
    raw = raw_consume(LoadShape(record_bytes, LARGEST_BATCH_BYTES // 4, in_flight=2))

    def load(target: Target, options: LoadOptions) -> Measurement:
        program = options.rdkafka_performance
        if program is None:
            return raw(target, options)
        with temporary_topic(target) as name:
            client_load = _fill_topic_for(target, options, name, record_bytes, partitions=1)
            return measure_load(target, lambda: rdkafka_consume(program, client_load))

    return load


def produce_with_clients(record_bytes: int, *, partitions: int) -> Load:
    def load(target: Target, options: LoadOptions) -> Measurement:
        with temporary_topic(target, partitions) as name:
            client_load = _client_load(target, options, name, record_bytes, {})
            tasks = [client_load] * PROCESSES
            return measure_load(
                target, lambda: combine_results(run_in_processes(librdkafka_produce, tasks))
            )

    return load


def consume_with_clients(record_bytes: int, *, partitions: int) -> Load:
    def load(target: Target, options: LoadOptions) -> Measurement:
        with temporary_topic(target, partitions) as name:
            client_load = _fill_topic_for(
                target, options, name, record_bytes, partitions=partitions
            )
            tasks = [client_load] * PROCESSES
            return measure_load(
                target, lambda: combine_results(run_in_processes(librdkafka_consume, tasks))
            )

    return load


def consume_at_tail(record_bytes: int) -> Load:
    def load(target: Target, options: LoadOptions) -> Measurement:
        with temporary_topic(target) as name:
            client_load = _client_load(target, options, name, record_bytes, {})
            return measure_load(target, lambda: run_in_processes(librdkafka_tail, [client_load])[0])

    return load


def latency(record_bytes: int) -> Load:
    def load(target: Target, options: LoadOptions) -> Measurement:
        with temporary_topic(target) as name:
            client_load = _client_load(target, options, name, record_bytes, {})
            return measure_load(
                target, lambda: run_in_processes(librdkafka_latency, [client_load])[0]
            )

    return load


def _client_load(
    target: Target,
    options: LoadOptions,
    name: str,
    record_bytes: int,
    settings: Mapping[str, str | int],
) -> ClientLoad:
    return ClientLoad(
        target.bootstrap,
        name,
        record_bytes=record_bytes,
        records=int(options.seconds * 100 * MB / (record_bytes + 500)),
        seconds=options.seconds,
        settings=settings,
    )


def _fill_topic_for(
    target: Target, options: LoadOptions, name: str, record_bytes: int, *, partitions: int
) -> ClientLoad:
    shape = LoadShape(record_bytes, LARGEST_BATCH_BYTES // 4, partitions)
    filled = fill_topic(target, name, shape, options.filled_mb)
    records = filled.batches * filled.records_per_batch * partitions
    return ClientLoad(target.bootstrap, name, partitions, record_bytes, records)


def _require_jars(options: LoadOptions) -> Path:
    if options.jars is None:
        raise BenchmarkSkipped("Kafka's jars are not available; see the message at the start")
    return options.jars


def _supports_api(target: Target, key: ApiKey) -> bool:
    supported = send_and_receive(
        target.bootstrap, ApiKey.API_VERSIONS, 0, ApiVersionsRequest()
    ).api_keys
    return any(each.api_key == key for each in supported)
