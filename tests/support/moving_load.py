"""A producer to many partitions that goes on while they move, and what must be true in the end.

Owner: the thread of the test; while it runs, the load has one of its own.
"""

import threading
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.group_members import wait_until

#: At most, of values that are not answered yet.
UNANSWERED_MAX = 2000
WAIT_S = 60


class MovingLoad:
    """Idempotent, acks=all, to all partitions in turn; what was acknowledged, and where."""

    def __init__(self, addresses: str, topic: str, *, partitions: int, padding: int = 0) -> None:
        self.acked: dict[bytes, tuple[int, int | None]] = {}
        self.failed: list[KafkaError] = []
        self._topic = topic
        self._partitions = partitions
        self._padding = bytes(padding)
        self._addresses = addresses
        self._sent = 0
        self._producer = Producer(
            {"bootstrap.servers": addresses, "enable.idempotence": True, "linger.ms": 5}
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._is_over.set()
        self._thread.join()

    def stop(self) -> None:
        """And wait for what is still to be answered."""
        self._is_over.set()
        self._thread.join()
        assert not self._producer.flush(WAIT_S)

    def _run(self) -> None:
        while not self._is_over.is_set():
            if self._sent - len(self.acked) - len(self.failed) < UNANSWERED_MAX:
                value = b"%d " % self._sent + self._padding
                to = self._sent % self._partitions
                self._producer.produce(self._topic, value, partition=to, on_delivery=self._told)
                self._sent += 1
            self._producer.poll(0.001)

    def _told(self, failure: KafkaError | None, message: Message) -> None:
        if failure is None:
            self.acked[message.value()] = (message.partition(), message.offset())
        else:
            self.failed.append(failure)

    def wait_for_more(self, count: int = 200) -> None:
        wanted = len(self.acked) + count
        wait_until(lambda: len(self.acked) >= wanted)

    def check(self) -> None:
        """All that was acknowledged is there, once, where the broker said."""
        assert self.failed == []
        found: dict[bytes, tuple[int, int]] = {}
        for message in self._consumed():
            assert message.value() not in found, "a duplicate"
            found[message.value()] = (message.partition(), message.offset())
        assert not self.acked.keys() - found.keys(), "lost"
        # A producer that has asked again may be told that it is there, and not where.
        told = {value: at for value, at in self.acked.items() if at[1] is not None}
        assert {value: found[value] for value in told} == told

    def _consumed(self) -> list[Message]:
        consumer = Consumer(
            {
                "bootstrap.servers": self._addresses,
                "group.id": "checker",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.assign([TopicPartition(self._topic, each, 0) for each in range(self._partitions)])
        found, ended = [], set()
        while len(ended) < self._partitions:
            message = consumer.poll(WAIT_S)
            assert message is not None
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
            else:
                found.append(message)
        consumer.close()
        return found
