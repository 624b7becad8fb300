"""A member of a group, in a process of its own: polls, tells of what it got, and commits it.

    python -m tests.support.group_member_program LIBRARY ADDRESS OPTIONS

OPTIONS are a JSON object; see ``MemberOptions`` in group_members.py.  Each line that it prints is
an event in JSON, with the time of the system's monotonic clock.  A line on its standard input says
what to do: ``close`` leaves the group and ends, ``topics a b`` subscribes anew.
"""

import asyncio
import json
import queue
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

Offsets = dict[tuple[str, int], int]


def tell(event: str, **facts: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, "at": time.monotonic(), **facts}) + "\n")
    sys.stdout.flush()


def orders() -> "queue.SimpleQueue[list[str]]":
    """What is written to our standard input; its end is an order to close."""
    received: queue.SimpleQueue[list[str]] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            received.put(line.split())
        received.put(["close"])

    threading.Thread(target=read, daemon=True).start()
    return received


def tell_records(records: list[tuple[str, int, int, str]]) -> Offsets:
    """What is to be committed then."""
    offsets: Offsets = {}
    for topic, partition, offset, _ in records:
        offsets[topic, partition] = max(offset + 1, offsets.get((topic, partition), 0))
    if records:
        tell("records", records=records)
    return offsets


def tell_committed(offsets: Offsets, begun_at: float) -> None:
    flat = [[topic, partition, offset] for (topic, partition), offset in offsets.items()]
    tell("committed", offsets=flat, begun_at=begun_at)


def confluent_settings(address: str, options: SimpleNamespace) -> dict[str, Any]:
    assignors = {"sticky": "cooperative-sticky", "cooperative": "cooperative-sticky"}
    settings = {
        "bootstrap.servers": address,
        "group.id": options.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": options.session_ms,
        "heartbeat.interval.ms": options.session_ms // 5,
        "partition.assignment.strategy": assignors.get(options.assignor, options.assignor),
        "fetch.wait.max.ms": 100,
        "topic.metadata.refresh.interval.ms": 1000,
    }
    if options.instance:
        settings["group.instance.id"] = options.instance
    return settings


def confluent_record(message: Any) -> tuple[str, int, int, str]:
    return message.topic(), message.partition(), message.offset(), message.value().decode()


def copier(address: str, topic: str | None) -> Callable[[list[Any]], None]:
    """Writes all it is given to a topic, and waits until it is there."""
    from confluent_kafka import Producer

    if topic is None:
        return lambda messages: None
    producer = Producer({"bootstrap.servers": address, "linger.ms": 1})

    def copy(messages: list[Any]) -> None:
        for message in messages:
            producer.produce(topic, message.value(), partition=message.partition())
        assert producer.flush(30) == 0

    return copy


def run_confluent(address: str, options: SimpleNamespace) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    copy = copier(address, options.copy_to)
    consumer = Consumer(confluent_settings(address, options))

    def note(event: str) -> Any:
        return lambda _, partitions: tell(
            event, partitions=[[each.topic, each.partition] for each in partitions]
        )

    def subscribe(topics: list[str]) -> None:
        consumer.subscribe(
            topics, on_assign=note("assigned"), on_revoke=note("revoked"), on_lost=note("revoked")
        )

    subscribe(options.topics)
    received = orders()
    while True:
        if not received.empty():
            order, *arguments = received.get()
            if order == "close":
                break
            subscribe(arguments)
        messages = [each for each in consumer.consume(100, timeout=0.1) if not each.error()]
        copy(messages)
        offsets = tell_records([confluent_record(each) for each in messages])
        if offsets:
            begun_at = time.monotonic()
            try:
                consumer.commit(
                    offsets=[TopicPartition(*where, offset) for where, offset in offsets.items()],
                    asynchronous=False,
                )
                tell_committed(offsets, begun_at)
            except KafkaException as refusal:
                tell("refused", error=refusal.args[0].name())
    consumer.close()


def kafka_python_consumer(address: str, options: SimpleNamespace) -> Any:
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    more = {"group_instance_id": options.instance} if options.instance else {}
    return KafkaConsumer(
        bootstrap_servers=address,
        group_id=options.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=options.session_ms,
        heartbeat_interval_ms=options.session_ms // 5,
        partition_assignment_strategy=[assignors[options.assignor]],
        fetch_max_wait_ms=100,
        metadata_max_age_ms=1000,
        **more,
    )


def run_kafka_python(address: str, options: SimpleNamespace) -> None:
    import kafka.errors
    from kafka import ConsumerRebalanceListener
    from kafka.structs import OffsetAndMetadata, TopicPartition

    consumer = kafka_python_consumer(address, options)

    class Noted(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Any) -> None:
            tell("assigned", partitions=[[*each] for each in assigned])

        def on_partitions_revoked(self, revoked: Any) -> None:
            tell("revoked", partitions=[[*each] for each in revoked])

    consumer.subscribe(options.topics, listener=Noted())
    received = orders()
    while True:
        if not received.empty():
            order, *arguments = received.get()
            if order == "close":
                break
            consumer.subscribe(arguments, listener=Noted())
        polled = consumer.poll(timeout_ms=100, max_records=100)
        records = [each for some in polled.values() for each in some]
        offsets = tell_records(
            [(each.topic, each.partition, each.offset, each.value.decode()) for each in records]
        )
        if offsets:
            begun_at = time.monotonic()
            try:
                consumer.commit(
                    {
                        TopicPartition(*where): OffsetAndMetadata(offset, "", -1)
                        for where, offset in offsets.items()
                    }
                )
                tell_committed(offsets, begun_at)
            except kafka.errors.KafkaError as refusal:
                tell("refused", error=type(refusal).__name__)
    consumer.close(autocommit=False)


def run_aiokafka(address: str, options: SimpleNamespace) -> None:
    asyncio.run(_run_aiokafka(address, options))


def aiokafka_consumer(address: str, options: SimpleNamespace) -> Any:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    return AIOKafkaConsumer(
        bootstrap_servers=address,
        group_id=options.group,
        group_instance_id=options.instance,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=options.session_ms,
        heartbeat_interval_ms=options.session_ms // 5,
        partition_assignment_strategy=[assignors[options.assignor]],
        fetch_max_wait_ms=100,
        metadata_max_age_ms=1000,
    )


async def _run_aiokafka(address: str, options: SimpleNamespace) -> None:
    import aiokafka.errors
    from aiokafka import ConsumerRebalanceListener, TopicPartition

    consumer = aiokafka_consumer(address, options)

    class Noted(ConsumerRebalanceListener):
        async def on_partitions_assigned(self, assigned: Any) -> None:
            tell("assigned", partitions=[[*each] for each in assigned])

        async def on_partitions_revoked(self, revoked: Any) -> None:
            tell("revoked", partitions=[[*each] for each in revoked])

    consumer.subscribe(options.topics, listener=Noted())
    await consumer.start()
    received = orders()
    while True:
        if not received.empty():
            order, *arguments = received.get()
            if order == "close":
                break
            consumer.subscribe(arguments, listener=Noted())
        polled = await consumer.getmany(timeout_ms=100, max_records=100)
        records = [each for some in polled.values() for each in some]
        offsets = tell_records(
            [(each.topic, each.partition, each.offset, each.value.decode()) for each in records]
        )
        if offsets:
            begun_at = time.monotonic()
            try:
                await consumer.commit(
                    {TopicPartition(*where): offset for where, offset in offsets.items()}
                )
                tell_committed(offsets, begun_at)
            except aiokafka.errors.KafkaError as refusal:
                tell("refused", error=type(refusal).__name__)
    await consumer.stop()


LIBRARIES = {
    "confluent": run_confluent,
    "kafka-python": run_kafka_python,
    "aiokafka": run_aiokafka,
}

if __name__ == "__main__":
    library, address, options = sys.argv[1:]
    LIBRARIES[library](address, SimpleNamespace(**json.loads(options)))
    tell("closed")
