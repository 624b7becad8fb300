"""The only member of a group, which commits each record when it has it, whoever coordinates.

    write_numbers(addresses, "events")
    reader = SoleReader(addresses, "group", "events")
    reader.read(COUNT)

Owner: the test's thread; librdkafka has its own beneath, which keeps the membership.
"""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.support.group_members import wait_until
from tests.support.persistent_load import RECONNECT, Silent

COUNT = 60
FLUSH_S = 30


def write_numbers(addresses: str, topic: str, *, first: int = 0, partitions: int = 1) -> None:
    """So many of them, from ``first`` on."""
    producer = Producer({"bootstrap.servers": addresses, **RECONNECT}, logger=Silent())
    for number in range(first, first + COUNT):
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(FLUSH_S) == 0


class SoleReader:
    """``offsets`` are what it has read, which is all in one partition."""

    def __init__(self, addresses: str, group: str, topic: str) -> None:
        self.offsets: list[int | None] = []
        self.assignments = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": addresses,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **RECONNECT,
            },
            logger=Silent(),
        )
        self._consumer.subscribe([topic], on_assign=self._assigned)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assignments += 1

    def read(self, count: int) -> None:
        """So many more."""
        wanted = len(self.offsets) + count

        def is_read() -> bool:
            message = self._consumer.poll(0.1)
            if message is not None and not message.error():
                self.offsets.append(message.offset())
                wait_until(lambda: self._is_committed(message))
            return len(self.offsets) >= wanted

        wait_until(is_read, or_else=lambda: self.offsets)

    def _is_committed(self, message: Message) -> bool:
        try:
            self._consumer.commit(message, asynchronous=False)
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise
            return False
        return True

    def close(self) -> None:
        self._consumer.close()
