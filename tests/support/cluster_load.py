"""A producer that goes on whatever happens to a cluster, and what must be true of it in the end.

Owner: the thread of the test; while it runs, the load has one of its own.
"""

import threading
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from odradek.protocol.types import TopicPartition as Place
from tests.support.cluster import Cluster
from tests.support.group_members import wait_until

TOPIC = "events"


class Load:
    """An idempotent producer that goes on until it is stopped; what was acknowledged, and where."""

    def __init__(self, cluster: Cluster) -> None:
        self.acked: dict[bytes, int | None] = {}
        self.failed: list[KafkaError] = []
        self._producer = Producer(
            {"bootstrap.servers": cluster.addresses, "enable.idempotence": True, "linger.ms": 1}
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._is_over.set()
        self._thread.join()
        assert not self._producer.flush(60)

    def _run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            self._producer.produce(TOPIC, b"%d" % number, partition=0, on_delivery=self._told)
            number += 1
            self._producer.poll(0.002)

    def _told(self, failure: KafkaError | None, message: Message) -> None:
        if failure is None:
            self.acked[message.value()] = message.offset()
        else:
            self.failed.append(failure)

    def wait_for_more(self, count: int = 100) -> None:
        wanted = len(self.acked) + count
        wait_until(lambda: len(self.acked) >= wanted)


def consumed(cluster: Cluster) -> list[tuple[int, bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.addresses,
            "group.id": "checker",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[tuple[int, bytes]] = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            consumer.close()
            return found
        found.append((message.offset(), message.value()))


def check(cluster: Cluster, load: Load) -> None:
    """All that was acknowledged is there, once, at its offset; and all replicas are the same."""
    assert load.failed == []
    found = consumed(cluster)
    values = {value: offset for offset, value in found}
    assert len(values) == len(found), "duplicates"
    assert not load.acked.keys() - values.keys(), "lost"
    # A producer that has asked again may be told that it is there, and not where.
    told = {value: offset for value, offset in load.acked.items() if offset is not None}
    assert {value: values[value] for value in told} == told
    wait_until(lambda: len(set(cluster.logs(Place(TOPIC, 0)))) == 1)
