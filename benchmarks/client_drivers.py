"""Loads by real clients: librdkafka in Python processes, rdkafka_performance, Kafka's tools.

librdkafka            through confluent-kafka; one process produces or consumes at most about half
                      a million records per second, a limit that small records reach
rdkafka_performance   the same library driven from C, if it has been built on this machine
ProducerPerformance,  from Kafka's jars; ConsumerPerformance needs a group coordinator
ConsumerPerformance
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, Producer, TopicPartition

Task = TypeVar("Task")
Result = TypeVar("Result")

TIMEOUT_S = 120.0
FLUSH_TIMEOUT_S = 30.0
TAIL_TIMEOUT_S = 5.0
PRODUCE_CALLS_PER_POLL = 500
CONSUME_RECORDS_MAX = 10_000
JAVA = ("java", "-Xmx512m")
PRODUCER_PERFORMANCE_REPORT = re.compile(
    r"(\d+) records sent, ([\d.]+) records/sec.* ([\d.]+) ms 50th, .* ([\d.]+) ms 99th"
)
RDKAFKA_PERFORMANCE_REPORT = re.compile(r"in (\d+)ms: (\d+) msgs/s")


class LoadFailed(Exception):
    """A client did not complete its load; the message quotes the client's output."""


class BenchmarkSkipped(Exception):
    """This benchmark cannot run here; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class ClientLoad:
    """The work of one client process."""

    bootstrap: str
    topic: str
    partitions: int = 1
    record_bytes: int = 1024
    records: int = 0
    seconds: float = 3.0
    settings: Mapping[str, str | int | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Latency:
    p50_ms: float
    p99_ms: float

    @classmethod
    def from_samples(cls, samples_ms: list[float]) -> Latency | None:
        ordered = sorted(samples_ms)
        if not ordered:
            return None
        return cls(ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100])


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load transferred, and in what time."""

    driver: str
    records: int
    size_bytes: int
    seconds: float
    requests: int = 0
    latency: Latency | None = None


def run_in_processes(function: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
    """Run each task in a separate process, all at the same time."""
    tasks = list(tasks)
    with ProcessPoolExecutor(len(tasks), mp_context=get_context("spawn")) as pool:
        return list(pool.map(function, tasks, timeout=TIMEOUT_S))


def combine_results(results: list[LoadResult]) -> LoadResult:
    """Combine the results of processes that ran at the same time."""
    return LoadResult(
        f"{len(results)} x {results[0].driver}",
        sum(each.records for each in results),
        sum(each.size_bytes for each in results),
        max(each.seconds for each in results),
    )


def librdkafka_produce(load: ClientLoad) -> LoadResult:
    errors: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": load.bootstrap,
            "acks": 1,
            "linger.ms": 5,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: errors.append(error),
            **load.settings,
        }
    )
    producer.list_topics(load.topic, timeout=TIMEOUT_S)
    value, sent = bytes(load.record_bytes), 0
    started = time.perf_counter()
    while time.perf_counter() - started < load.seconds:
        try:
            for _ in range(PRODUCE_CALLS_PER_POLL):
                producer.produce(load.topic, value)
                sent += 1
            producer.poll(0)
        except BufferError:
            producer.poll(0.01)
    undelivered = producer.flush(FLUSH_TIMEOUT_S)
    seconds = time.perf_counter() - started
    if undelivered or errors:
        raise LoadFailed(f"{undelivered} not delivered, {len(errors)} failed: {errors[:1]}")
    return LoadResult("librdkafka", sent, sent * load.record_bytes, seconds)


def librdkafka_consume(load: ClientLoad) -> LoadResult:
    """Consume from the start.  The time runs from the first records to the last."""
    consumer = _consumer(load, OFFSET_BEGINNING)
    consumed, started, deadline = 0, 0.0, time.perf_counter() + TIMEOUT_S
    while consumed < load.records and time.perf_counter() < deadline:
        received = len(consumer.consume(CONSUME_RECORDS_MAX, timeout=0.5))
        started = started or time.perf_counter()
        consumed += received
    seconds = time.perf_counter() - started
    consumer.close()
    if consumed < load.records:
        raise LoadFailed(f"received {consumed} of {load.records} records")
    return LoadResult("librdkafka", consumed, consumed * load.record_bytes, seconds)


def librdkafka_tail(load: ClientLoad) -> LoadResult:
    """Consume at the log end while this process also produces, until every record is received."""
    consumer = _consumer(load, OFFSET_END)
    _wait_until_at_tail(consumer, load)
    sent: list[LoadResult] = []
    producer_thread = threading.Thread(target=lambda: sent.append(librdkafka_produce(load)))
    producer_thread.start()
    consumed, started, last = 0, time.perf_counter(), time.perf_counter()
    while (not sent or consumed < sent[0].records) and time.perf_counter() - last < TAIL_TIMEOUT_S:
        received = sum(
            len(each.value() or b"") == load.record_bytes
            for each in consumer.consume(CONSUME_RECORDS_MAX, timeout=0.1)
        )
        if received:
            consumed, last = consumed + received, time.perf_counter()
    producer_thread.join()
    consumer.close()
    if not sent or consumed < sent[0].records:
        raise LoadFailed(f"received {consumed} of {sent[0].records if sent else 'no'} records")
    return LoadResult("librdkafka", consumed, consumed * load.record_bytes, last - started)


def librdkafka_latency(load: ClientLoad, *, per_second: int = 1000) -> LoadResult:
    """Measure the time from ``produce`` in one thread to ``poll`` in another."""
    consumer = _consumer(load, OFFSET_END)
    _wait_until_at_tail(consumer, load)
    count = int(per_second * load.seconds)
    producer_thread = threading.Thread(target=_produce_at_rate, args=(load, count, per_second))
    started = time.perf_counter()
    producer_thread.start()
    latencies_ms: list[float] = []
    while len(latencies_ms) < count and time.perf_counter() - started < load.seconds * 2 + 10:
        message = consumer.poll(0.5)
        value = b"" if message is None else message.value() or b""
        if len(value) == load.record_bytes:
            sent_ns = int.from_bytes(value[:8])
            latencies_ms.append((time.perf_counter_ns() - sent_ns) / 1e6)
    producer_thread.join()
    consumer.close()
    if len(latencies_ms) < count:
        raise LoadFailed(f"received {len(latencies_ms)} of {count} records")
    seconds = time.perf_counter() - started
    driver = f"librdkafka, {per_second} records/s"
    # Leave out the first records: librdkafka's own start-up delays them, not the broker.
    settled_latency = Latency.from_samples(latencies_ms[per_second // 2 :])
    return LoadResult(driver, count, count * load.record_bytes, seconds, latency=settled_latency)


def _produce_at_rate(load: ClientLoad, count: int, per_second: int) -> None:
    producer = Producer({"bootstrap.servers": load.bootstrap, "acks": 1, "linger.ms": 0})
    padding = bytes(load.record_bytes - 8)
    due = time.perf_counter()
    for _ in range(count):
        due += 1 / per_second
        time.sleep(max(0.0, due - time.perf_counter()))
        producer.produce(load.topic, time.perf_counter_ns().to_bytes(8) + padding)
        producer.poll(0)
    producer.flush(FLUSH_TIMEOUT_S)


def _consumer(load: ClientLoad, offset: int) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": load.bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "log_level": 0,  # hides errors about the group coordinator, which is not needed
        }
    )
    consumer.assign([TopicPartition(load.topic, each, offset) for each in range(load.partitions)])
    return consumer


def _wait_until_at_tail(consumer: Consumer, load: ClientLoad) -> None:
    """Produce probe records until the consumer receives one, which proves it is at the log end."""
    producer = Producer({"bootstrap.servers": load.bootstrap, "linger.ms": 0})
    deadline = time.perf_counter() + FLUSH_TIMEOUT_S
    while time.perf_counter() < deadline:
        producer.produce(load.topic, b"are you there?")
        producer.flush(FLUSH_TIMEOUT_S)
        message = consumer.poll(0.2)
        if message is not None and not message.error():
            return
    raise LoadFailed("the consumer received no probe record at the log end")


def rdkafka_produce(program: Path, load: ClientLoad) -> LoadResult:
    arguments = ["-P", "-t", load.topic, "-s", load.record_bytes, "-c", load.records, "-a", 1]
    return _run_rdkafka_performance(program, load, [*arguments, "-X", "linger.ms=5"])


def rdkafka_consume(program: Path, load: ClientLoad) -> LoadResult:
    """Consume partition 0 from the start."""
    arguments = ["-C", "-t", load.topic, "-p", 0, "-o", "beginning", "-c", load.records]
    return _run_rdkafka_performance(program, load, arguments)


def _run_rdkafka_performance(program: Path, load: ClientLoad, arguments: list[Any]) -> LoadResult:
    output = _run([str(program), "-b", load.bootstrap, *map(str, arguments)])
    reports = RDKAFKA_PERFORMANCE_REPORT.findall(output)
    if not reports:
        raise LoadFailed(f"{program.name} reported no rate:\n{output[-2000:]}")
    seconds = load.records / int(reports[-1][1])
    return LoadResult(program.name, load.records, load.records * load.record_bytes, seconds)


def java_produce(jars: Path, load: ClientLoad, *options: str) -> LoadResult:
    """Run ProducerPerformance; ``options`` are passed to it."""
    properties = {"bootstrap.servers": load.bootstrap, "acks": "1", **load.settings}
    command = [*JAVA, "-cp", f"{jars}/*", "org.apache.kafka.tools.ProducerPerformance"]
    command += ["--topic", load.topic, "--throughput", "-1"]
    command += ["--num-records", str(load.records), "--record-size", str(load.record_bytes)]
    command += options
    command += ["--producer-props", *(f"{name}={each}" for name, each in properties.items())]
    output = _run(command)
    reports = PRODUCER_PERFORMANCE_REPORT.findall(output)
    if not reports or int(reports[-1][0]) != load.records:
        raise LoadFailed(f"ProducerPerformance did not send all records:\n{output[-2000:]}")
    rate, p50, p99 = map(float, reports[-1][1:])
    size_bytes, seconds = load.records * load.record_bytes, load.records / rate
    latency = Latency(p50, p99)
    return LoadResult("ProducerPerformance", load.records, size_bytes, seconds, latency=latency)


def java_consume(jars: Path, load: ClientLoad) -> LoadResult:
    command = [*JAVA, "-cp", f"{jars}/*", "org.apache.kafka.tools.ConsumerPerformance"]
    command += ["--bootstrap-server", load.bootstrap, "--topic", load.topic]
    command += ["--messages", str(load.records), "--timeout", "20000", "--hide-header"]
    output = _run(command)
    try:
        fields = [float(each) for each in output.splitlines()[-1].split(",")[2:]]
        consumed, fetching_s = int(fields[2]), fields[5] / 1000
    except (IndexError, ValueError) as error:
        raise LoadFailed(f"unexpected output of ConsumerPerformance:\n{output[-2000:]}") from error
    return LoadResult("ConsumerPerformance", consumed, consumed * load.record_bytes, fetching_s)


def _run(command: list[str]) -> str:
    process = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL
    )
    if process.returncode:
        raise LoadFailed(
            f"{command[0]} exited with {process.returncode}:\n{process.stderr[-2000:]}"
        )
    return process.stdout
