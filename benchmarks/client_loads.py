"""Loads of real clients, by the leanest of them that is here; see broker_clients.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from broker_clients import (
    ClientLoad,
    LeftOut,
    in_processes,
    java_consume,
    java_produce,
    librdkafka_consume,
    librdkafka_follow,
    librdkafka_latency,
    librdkafka_produce,
    rdkafka_consume,
    rdkafka_produce,
    together,
)
from broker_figures import MB, Load, Measured, Tools, costed, topic
from broker_raw import ask
from broker_raw_loads import Shape, fill, raw_consume
from broker_sides import Side

from odradek.protocol.api.api_versions import ApiVersionsRequest
from odradek.protocol.api_keys import ApiKey

#: What a producer may send at most, by the defaults of all brokers.
LARGEST_BATCH_BYTES = 1_000_000
PROCESSES = 2
KB = 1024


def produce_large(record_bytes: int) -> Load:
    """By the leanest client there is."""

    def load(side: Side, tools: Tools) -> Measured:
        settings = {"batch.size": LARGEST_BATCH_BYTES, "linger.ms": 5}
        with topic(side) as name:
            wanted = _wanted(side, tools, name, record_bytes, settings)
            if tools.rdkafka_performance is not None:
                program = tools.rdkafka_performance
                return costed(side, lambda: rdkafka_produce(program, wanted))
            if tools.jars is not None:
                jars = tools.jars
                return costed(side, lambda: java_produce(jars, wanted))
            return costed(side, lambda: together(in_processes(librdkafka_produce, [wanted] * 2)))

    return load


def java_produced(record_bytes: int, *, batch_bytes: int = 16 * KB) -> Load:
    def load(side: Side, tools: Tools) -> Measured:
        jars = _jars(tools)
        with topic(side) as name:
            wanted = _wanted(side, tools, name, record_bytes, {"batch.size": batch_bytes})
            return costed(side, lambda: java_produce(jars, wanted))

    return load


def java_consumed(record_bytes: int) -> Load:
    def load(side: Side, tools: Tools) -> Measured:
        jars = _jars(tools)
        if not _serves(side, ApiKey.FIND_COORDINATOR):
            raise LeftOut("ConsumerPerformance needs a group coordinator")
        with topic(side) as name:
            wanted = _filled_for(side, tools, name, record_bytes, partitions=1)
            return costed(side, lambda: java_consume(jars, wanted))

    return load


def consume_large(record_bytes: int) -> Load:
    """From the start, by rdkafka_performance, or else by raw sockets."""
    raw = raw_consume(Shape(record_bytes, LARGEST_BATCH_BYTES // 4, in_flight=2))

    def load(side: Side, tools: Tools) -> Measured:
        program = tools.rdkafka_performance
        if program is None:
            return raw(side, tools)
        with topic(side) as name:
            wanted = _filled_for(side, tools, name, record_bytes, partitions=1)
            return costed(side, lambda: rdkafka_consume(program, wanted))

    return load


def clients_produce(record_bytes: int, *, partitions: int) -> Load:
    def load(side: Side, tools: Tools) -> Measured:
        with topic(side, partitions) as name:
            wanted = _wanted(side, tools, name, record_bytes, {})
            tasks = [wanted] * PROCESSES
            return costed(side, lambda: together(in_processes(librdkafka_produce, tasks)))

    return load


def clients_consume(record_bytes: int, *, partitions: int) -> Load:
    def load(side: Side, tools: Tools) -> Measured:
        with topic(side, partitions) as name:
            wanted = _filled_for(side, tools, name, record_bytes, partitions=partitions)
            tasks = [wanted] * PROCESSES
            return costed(side, lambda: together(in_processes(librdkafka_consume, tasks)))

    return load


def clients_at_the_tail(record_bytes: int) -> Load:
    def load(side: Side, tools: Tools) -> Measured:
        with topic(side) as name:
            wanted = _wanted(side, tools, name, record_bytes, {})
            return costed(side, lambda: in_processes(librdkafka_follow, [wanted])[0])

    return load


def latency(record_bytes: int) -> Load:
    def load(side: Side, tools: Tools) -> Measured:
        with topic(side) as name:
            wanted = _wanted(side, tools, name, record_bytes, {})
            return costed(side, lambda: in_processes(librdkafka_latency, [wanted])[0])

    return load


def _wanted(
    side: Side, tools: Tools, name: str, record_bytes: int, settings: Mapping[str, str | int]
) -> ClientLoad:
    return ClientLoad(
        side.bootstrap,
        name,
        record_bytes=record_bytes,
        records=int(tools.seconds * 100 * MB / (record_bytes + 500)),
        seconds=tools.seconds,
        settings=settings,
    )


def _filled_for(
    side: Side, tools: Tools, name: str, record_bytes: int, *, partitions: int
) -> ClientLoad:
    shape = Shape(record_bytes, LARGEST_BATCH_BYTES // 4, partitions)
    filled = fill(side, name, shape, tools.filled_mb)
    records = filled.batches * filled.records_in_batch * partitions
    return ClientLoad(side.bootstrap, name, partitions, record_bytes, records)


def _jars(tools: Tools) -> Path:
    if tools.jars is None:
        raise LeftOut("Kafka's jars are not here; --kafka or --jars brings them")
    return tools.jars


def _serves(side: Side, key: ApiKey) -> bool:
    served = ask(side.bootstrap, ApiKey.API_VERSIONS, 0, ApiVersionsRequest()).api_keys
    return any(each.api_key == key for each in served)
