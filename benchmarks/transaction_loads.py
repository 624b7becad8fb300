"""Loads of transactions: many small ones, and records that are committed every now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from broker_clients import (
    FLUSH_TIMEOUT_S,
    PRODUCED_AT_ONCE,
    TIMEOUT_S,
    ClientLoad,
    Latency,
    LeftOut,
    LoadFailed,
    Served,
    in_processes,
    java_produce,
)
from broker_figures import COST, Load, Measured, Tools, costed, topic
from broker_raw import ask
from broker_sides import Side
from confluent_kafka import KafkaException, Producer
from transaction_driver import SECOND, TransactionLoad, drive

from odradek.protocol.api.api_versions import ApiVersionsRequest
from odradek.protocol.api_keys import ApiKey

RECORD_BYTES = 100
THROUGHPUT_RECORD_BYTES = 1024
TRANSACTION_S = 0.1
WAITING_KB = 8 * 1024
#: What ProducerPerformance is given to send, for each second that is to be measured.
RECORDS_PER_S = 50_000


@dataclass(frozen=True, slots=True)
class Transactions:
    """Of so many records, by so many producers at once."""

    records: int
    producers: int = 1
    #: Of KIP-890: without AddPartitionsToTxn, and with an epoch for each.
    is_second: bool = False


def transactions(shape: Transactions) -> Load:
    def load(side: Side, tools: Tools) -> Measured:
        if shape.is_second and not _speaks_second(side):
            raise LeftOut("transactions of the second version are not served")
        with topic(side, shape.producers) as name:
            measured = costed(side, lambda: _driven(side, name, shape, tools.seconds))
        figures = dict(measured.figures)
        figures["txn/s"] = figures.pop("req/s")
        if COST in figures:
            figures["CPU us/txn"] = figures.pop(COST)
        return Measured(measured.driver, figures)

    return load


def _driven(side: Side, name: str, shape: Transactions, seconds: float) -> Served:
    names = tuple(f"benchmark-{time.time_ns()}-{each}" for each in range(shape.producers))
    load = TransactionLoad(
        address=side.bootstrap,
        topic=name,
        names=names,
        records=shape.records,
        record_bytes=RECORD_BYTES,
        seconds=seconds,
        is_second=shape.is_second,
    )
    (outcome,) = in_processes(drive, [load])
    records = outcome.transactions * shape.records
    return Served(
        f"raw sockets, {shape.producers} producers",
        records,
        records * RECORD_BYTES,
        outcome.seconds,
        outcome.transactions,
        Latency.of(outcome.latencies_ms),
    )


def _speaks_second(side: Side) -> bool:
    """Whether it is agreed on, and not only known."""
    served = ask(side.bootstrap, ApiKey.API_VERSIONS, 3, _asking()).api_keys
    versions: dict[int, int] = {each.api_key: each.max_version for each in served}
    return versions.get(ApiKey.END_TXN, 0) >= SECOND[ApiKey.END_TXN]


def _asking() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="benchmark", client_software_version="1")


def committed_every_so_often() -> Load:
    """By librdkafka."""

    def load(side: Side, tools: Tools) -> Measured:
        with topic(side) as name:
            plain = _plain(side, tools, name, linger_ms=5)
            return _in_turns(
                lambda: in_processes(produce_plainly, [plain])[0],
                lambda: in_processes(produce_in_transactions, [_named(plain)])[0],
            )

    return load


def java_committed_every_so_often() -> Load:
    """By Kafka's producer."""

    def load(side: Side, tools: Tools) -> Measured:
        jars = tools.jars
        if jars is None:
            raise LeftOut("Kafka's jars are not here; --kafka brings them")
        every_ms = str(int(TRANSACTION_S * 1000))
        with topic(side) as name:
            plain = _plain(side, tools, name, linger_ms=5)
            return _in_turns(
                lambda: java_produce(jars, plain),
                lambda: java_produce(jars, _named(plain), "--transaction-duration-ms", every_ms),
            )

    return load


def _plain(side: Side, tools: Tools, name: str, *, linger_ms: int) -> ClientLoad:
    """Idempotent, since a transactional producer is that too."""
    return ClientLoad(
        bootstrap=side.bootstrap,
        topic=name,
        record_bytes=THROUGHPUT_RECORD_BYTES,
        records=int(tools.seconds * RECORDS_PER_S),
        seconds=tools.seconds,
        settings={"acks": "all", "enable.idempotence": "true", "linger.ms": linger_ms},
    )


def _named(plain: ClientLoad) -> ClientLoad:
    named = {"transactional.id": f"benchmark-{time.time_ns()}", **plain.settings}
    return replace(plain, settings=named)


def _in_turns(plainly: Callable[[], Served], in_transactions: Callable[[], Served]) -> Measured:
    """Twice each; the better one counts."""
    alone, within = [], []
    for _ in range(2):
        alone.append(plainly())
        within.append(in_transactions())
    best = {"msg/s": max(map(_rate, within)), "alone": max(map(_rate, alone))}
    return Measured(within[0].driver, {**best, "share": best["msg/s"] / best["alone"]})


def _rate(served: Served) -> float:
    return served.records / served.seconds


def produce_plainly(load: ClientLoad) -> Served:
    producer = _producer(load)
    return _produced(producer, load, every_s=None)


def produce_in_transactions(load: ClientLoad) -> Served:
    producer = _producer(load)
    producer.init_transactions(TIMEOUT_S)
    return _produced(producer, load, every_s=TRANSACTION_S)


def _producer(load: ClientLoad) -> Producer:
    # What waits when a transaction is to end holds up the next; librdkafka would let 1 GB wait.
    waiting = {"queue.buffering.max.kbytes": WAITING_KB}
    producer = Producer({"bootstrap.servers": load.bootstrap, **waiting, **load.settings})
    producer.list_topics(load.topic, timeout=TIMEOUT_S)
    return producer


def _produced(producer: Producer, load: ClientLoad, *, every_s: float | None) -> Served:
    """All of it acknowledged, and committed if it is in transactions."""
    value, sent = bytes(load.record_bytes), 0
    started = time.perf_counter()
    try:
        while (now := time.perf_counter()) - started < load.seconds:
            if every_s is not None:
                producer.begin_transaction()
            until = now + every_s if every_s is not None else started + load.seconds
            sent += _send_until(producer, load.topic, value, until)
            if every_s is not None:
                producer.commit_transaction(TIMEOUT_S)
        left = producer.flush(FLUSH_TIMEOUT_S)
    except KafkaException as failure:
        raise LoadFailed(str(failure)) from failure
    seconds = time.perf_counter() - started
    if left:
        raise LoadFailed(f"{left} not delivered")
    return Served("librdkafka", sent, sent * load.record_bytes, seconds)


def _send_until(producer: Producer, topic_name: str, value: bytes, until: float) -> int:
    sent = 0
    while time.perf_counter() < until:
        try:
            for _ in range(PRODUCED_AT_ONCE):
                producer.produce(topic_name, value)
                sent += 1
            producer.poll(0)
        except BufferError:
            producer.poll(0.005)  # no more than a part of what waits is sent meanwhile
    return sent
