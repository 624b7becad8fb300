"""Producers and a consumer that go on however often their broker is killed.

A producer writes numbers in ascending order, to all partitions in turn, and notes which of them
were acknowledged at which offset; the consumer notes what it reads.  Both are librdkafka's.

    check([producer], [consumer])   when all have stopped and the broker is well again

Owner: a thread for each, until ``stop``.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from odradek.protocol.types import TopicPartition
from tests.support.client_driver import BEGINNING
from tests.support.histories import History
from tests.support.histories import check as check_history

FLUSH_TIMEOUT_S = 60
JOIN_TIMEOUT_S = 90
CATCH_UP_S = 30
QUEUED_MAX = 500
#: So many and then a pause: what is wanted is time under load, not much of it.
AT_ONCE = 4
PAUSE_S = 0.002
RECONNECT = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record is; of one that was there already its producer may not be told the offset."""

    partition: int
    offset: int | None


class Silent:
    """A broker that was killed is worth no word."""

    def log(self, *told: object) -> None: ...


def transactional_producer(address: str, transactional_id: str, *, timeout_ms: int) -> Producer:
    """One that goes on with its transaction, too; it has no epoch yet."""
    return Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "linger.ms": 0,
            # Else librdkafka (2.11 and later), when its only broker has come back, may go on to
            # wait for the group's coordinator as it knew it before, and has given up since.
            "metadata.recovery.strategy": "none",
            **RECONNECT,
        },
        logger=Silent(),
    )


class PersistentProducer:
    """``acknowledged`` is by value, ``sent`` by partition and in the order of sending."""

    def __init__(
        self,
        address: str,
        topic: str,
        *,
        name: str,
        partitions: int,
        padding: int = 0,
        **more: Any,
    ) -> None:
        """``padding``: by so many bytes values are longer than they need to be."""
        self._padding = bytes(padding)
        self._made = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "acks": "all",
                "queue.buffering.max.messages": QUEUED_MAX,
                "message.timeout.ms": FLUSH_TIMEOUT_S * 1000,
                **RECONNECT,
                **more,
            },
            logger=Silent(),
        )
        self._topic = topic
        self.name = name
        self._partitions = partitions
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.acknowledged: dict[bytes, Place] = {}
        self.sent: defaultdict[int, list[bytes]] = defaultdict(list)
        self.failures: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """When everything that was sent has been acknowledged."""
        self._is_over.set()
        self._thread.join(JOIN_TIMEOUT_S)
        assert not self._thread.is_alive()

    def _work(self) -> None:
        number = 0
        while not self._is_over.is_set():
            partition = number % self._partitions
            value = f"{self.name} {number}".encode() + self._padding
            try:
                self._made.produce(self._topic, value, partition=partition, on_delivery=self._note)
            except BufferError:
                self._made.poll(0.05)
                continue
            self.sent[partition].append(value)
            number += 1
            self._made.poll(0)
            if number % AT_ONCE == 0:
                time.sleep(PAUSE_S)
        self._made.flush(FLUSH_TIMEOUT_S)
        del self._made  # which closes its connections

    def _note(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is not None or value is None:
            self.failures.append(f"{value!r}: {error}")
        else:
            self.acknowledged[value] = Place(message.partition() or 0, message.offset())


class PersistentConsumer:
    """``found`` is by partition, in the order of reading."""

    def __init__(self, address: str, topic: str, *, partitions: int, **more: Any) -> None:
        self._address, self.topic, self.partitions, self._more = address, topic, partitions, more
        self._made = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "never-asked-for",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                **RECONNECT,
                **more,
            },
            logger=Silent(),
        )
        self._starts = [
            confluent_kafka.TopicPartition(topic, number, BEGINNING) for number in range(partitions)
        ]
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._is_over = threading.Event()
        self.found: defaultdict[int, list[tuple[int, bytes | None]]] = defaultdict(list)
        self.failures: list[str] = []

    def start(self) -> None:
        self._made.assign(self._starts)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(JOIN_TIMEOUT_S)
        assert not self._thread.is_alive()

    @property
    def count(self) -> int:
        return sum(map(len, self.found.values()))

    def wait_for(self, count: int) -> None:
        """So many records; or some time, after which they will not come."""
        deadline = time.monotonic() + CATCH_UP_S
        while self.count < count and time.monotonic() < deadline:
            time.sleep(0.02)

    def wait_for_values(self, values: Collection[bytes | None]) -> None:
        """All of these; or some time, after which they will not come."""
        missing, positions = {*values}, dict.fromkeys(range(self.partitions), 0)
        deadline = time.monotonic() + CATCH_UP_S
        while missing and time.monotonic() < deadline:
            for partition, position in positions.items():
                new = self.found[partition][position:]
                positions[partition] += len(new)
                missing -= {value for _, value in new}
            time.sleep(0.02)

    @property
    def values(self) -> list[bytes | None]:
        return [value for found in [*self.found.values()] for _, value in found]

    def again(self, values: Collection[bytes | None]) -> PersistentConsumer:
        """Another of the same kind, which has read all from the start: these, or too few."""
        made = PersistentConsumer(
            self._address, self.topic, partitions=self.partitions, **self._more
        )
        made.start()
        made.wait_for_values(values)
        made.stop()
        return made

    def tell(self, history: History, name: str) -> None:
        """What it has read, when it has stopped."""
        for number, found in self.found.items():
            partition = TopicPartition(self.topic, number)
            history.began(name, partition, 0)
            for offset, value in found:
                history.polled(name, partition, offset, value)

    def _work(self) -> None:
        try:
            while not self._is_over.is_set():
                for message in self._made.consume(500, timeout=0.1):
                    self._note(message)
        except KafkaException as failure:
            self.failures.append(str(failure))
        finally:
            self._made.close()

    def _note(self, message: Message) -> None:
        error = message.error()
        if error is None:
            self.found[message.partition() or 0].append((message.offset() or 0, message.value()))
        elif not error.retriable():
            self.failures.append(str(error))


def check(
    producers: Sequence[PersistentProducer],
    consumers: Sequence[PersistentConsumer],
    *,
    beside: Iterable[bytes] = (),
) -> None:
    """When they have stopped: nothing failed, and what they noted is as it must be.

    So is what is there by now: the first of the consumers has it read again, from the start.
    ``beside`` is what others may have sent to the first partition.
    """
    noted = [*(each.acknowledged for each in producers), *(each.values for each in consumers)]
    late = consumers[0].again({value for values in noted for value in values})
    assert [*_failures(producers), *_failures([*consumers, late])] == []
    history = history_of(producers, [*consumers, late])
    for value in beside:
        history.sent_beside(TopicPartition(late.topic, 0), value)
    check_history(history)


def _failures(clients: Iterable[PersistentProducer | PersistentConsumer]) -> Iterator[str]:
    for client in clients:
        yield from client.failures


def history_of(
    producers: Sequence[PersistentProducer], consumers: Sequence[PersistentConsumer]
) -> History:
    """All that they noted, when they have stopped; the last of them has read it in the end."""
    history, topic = History(), consumers[-1].topic
    for producer in producers:
        for partition, values in producer.sent.items():
            for value in values:
                history.sent(producer.name, TopicPartition(topic, partition), value)
        for value, place in producer.acknowledged.items():
            history.acked(TopicPartition(topic, place.partition), place.offset, value)
    for number, consumer in enumerate(consumers):
        consumer.tell(history, f"consumer {number}")
    history.final(f"consumer {len(consumers) - 1}", topic)
    return history
