"""Topics to be exported and restored: records of all kinds, and what a consumer reads, in order."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker_process import BrokerProcess

PARTITIONS = 3
NOON_MS = 1_700_000_000_000
DAY_MS = 86_400_000
TIMEOUT_S = 30

#: Key, value, headers, timestamp.
Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]
Rows = dict[int, list[Row]]  # by partition


def create(broker: BrokerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})  # has to outlive the answer
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()


def rows_of_all_kinds(count: int) -> Rows:
    """With null and empty keys and values, headers, times to and fro; one partition is empty."""
    rows: Rows = {partition: [] for partition in range(PARTITIONS)}
    for number in range(count):
        row: Row = (
            None if number % 5 == 0 else b"" if number % 5 == 1 else b"key-%d" % number,
            None if number % 7 == 0 else b"" if number % 7 == 1 else b"value %d" % number,
            [("n", b"%d" % number), ("n", None), ("", b"")] if number % 3 == 0 else [],
            NOON_MS + number % 3 * DAY_MS + number,
        )
        rows[number % 2 * 2].append(row)
    return rows


def send(producer: Producer, topic: str, rows: Rows) -> None:
    for partition, of_partition in rows.items():
        for key, value, headers, timestamp in of_partition:
            producer.produce(
                topic,
                key=key,
                value=value,
                headers=headers,
                timestamp=timestamp,
                partition=partition,
            )
    assert producer.flush(TIMEOUT_S) == 0


def consumed(broker: BrokerProcess, topic: str) -> Rows:
    """Everything that is there, at read_committed."""
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.address,
        "group.id": "compares",
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    rows: Rows = {partition: [] for partition in range(PARTITIONS)}
    ended = set()
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in rows])
        while len(ended) < PARTITIONS:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
                continue
            rows[message.partition()].append(
                (message.key(), message.value(), message.headers() or [], message.timestamp()[1])
            )
    finally:
        consumer.close()
    return rows
