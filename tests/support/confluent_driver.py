"""confluent-kafka, and so librdkafka, as a driver.

Owner: the test's thread; librdkafka has its own beneath.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from tests.support.client_driver import (
    FETCH_BYTES_MAX,
    TIMEOUT_S,
    USUAL,
    Options,
    Received,
    Refused,
    Sent,
)


class ConfluentDriver:
    name = "confluent-kafka"

    @contextmanager
    def producer(self, address: str, options: Options = USUAL) -> Iterator[_Producer]:
        made = confluent_kafka.Producer(
            {
                "bootstrap.servers": address,
                "acks": options.acks,
                "compression.type": options.codec,
                "enable.idempotence": options.is_idempotent,
                "message.max.bytes": options.request_bytes_max,
                "linger.ms": options.linger_ms,
                "message.timeout.ms": TIMEOUT_S * 1000,
                "reconnect.backoff.max.ms": 200,
            },
            logger=_Silent(),
        )
        yield _Producer(made)
        made.flush(TIMEOUT_S)

    @contextmanager
    def consumer(
        self, address: str, *, fetch_bytes_max: int = FETCH_BYTES_MAX
    ) -> Iterator[_Consumer]:
        made = confluent_kafka.Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "never-asked-for",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "reconnect.backoff.max.ms": 200,
                "max.partition.fetch.bytes": fetch_bytes_max,
                "fetch.max.bytes": FETCH_BYTES_MAX,
                "receive.message.max.bytes": 2 * FETCH_BYTES_MAX,
            },
            logger=_Silent(),
        )
        try:
            yield _Consumer(made)
        finally:
            made.close()


class _Producer:
    def __init__(self, made: confluent_kafka.Producer) -> None:
        self._made = made

    def send(self, topic: str, records: Sequence[Sent]) -> Sequence[int]:
        offsets: dict[int, int] = {}
        failures: list[KafkaError] = []

        def noting(number: int) -> Any:
            def note(error: KafkaError | None, message: Message) -> None:
                if error is not None:
                    failures.append(error)
                offset = message.offset()
                offsets[number] = -1 if offset is None or offset < 0 else offset

            return note

        for number, record in enumerate(records):
            self._produce(topic, record, noting(number))
        self._made.flush(TIMEOUT_S)
        if failures:
            raise Refused(failures[0].name()) from KafkaException(failures[0])
        return [offsets[number] for number in range(len(records))]

    def _produce(self, topic: str, record: Sent, note: Any) -> None:
        given = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
        try:
            self._made.produce(
                topic,
                record.value,
                record.key,
                partition=record.partition,
                headers=list(record.headers),
                on_delivery=note,
                **given,
            )
        except KafkaException as error:
            raise Refused(error.args[0].name()) from error
        self._made.poll(0)


class _Consumer:
    def __init__(self, made: confluent_kafka.Consumer) -> None:
        self._made = made

    def read(self, topic: str, starts: Mapping[int, int], *, count: int) -> Sequence[Received]:
        self._made.assign([TopicPartition(topic, *start) for start in starts.items()])
        found: list[Received] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(found) < count and time.monotonic() < deadline:
            for message in self._made.consume(count - len(found), timeout=1):
                if message.error() is not None and not message.error().retriable():
                    raise Refused(message.error().name()) from KafkaException(message.error())
                found.append(_received(message))
        return found

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        asked = [TopicPartition(topic, partition, timestamp_ms)]
        (answer,) = self._made.offsets_for_times(asked, timeout=TIMEOUT_S)
        return None if answer.offset < 0 else answer.offset


def _received(message: Message) -> Received:
    return Received(
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        value=message.value(),
        key=message.key(),
        headers=tuple(message.headers() or ()),
        timestamp_ms=message.timestamp()[1],
    )


class _Silent:
    """A broker that is restarted is worth no word."""

    def log(self, *told: object) -> None: ...
