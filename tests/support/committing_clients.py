"""Offsets of a group committed and asked for by client libraries, without being a member.

    BY[library](address, group, "t", (5, "words", 2))    commits, if there is something to
    == (5, "words", 2)                                   what the library is told then

The offset, what is said of it, and the leader's epoch.  aiokafka cannot say the epoch, and tells of
the offset only; the rest is asked for by a raw request.
"""

from __future__ import annotations

import asyncio

import aiokafka
import confluent_kafka
import kafka
import kafka.structs

from tests.support.group_wire import committed_line

Committed = tuple[int, str, int]
NO_EPOCH = -1


def by_confluent(address: str, group: str, topic: str, said: Committed | None = None) -> Committed:
    place = confluent_kafka.TopicPartition
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": group})
    if said is not None:
        offset, metadata, epoch = said
        telling = place(topic, 0, offset, metadata=metadata, leader_epoch=epoch)
        consumer.commit(offsets=[telling], asynchronous=False)
    (found,) = consumer.committed([place(topic, 0)], timeout=30)
    consumer.close()
    return found.offset, found.metadata, found.leader_epoch


def by_kafka_python(
    address: str, group: str, topic: str, said: Committed | None = None
) -> Committed:
    place = kafka.TopicPartition(topic, 0)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=address, group_id=group, enable_auto_commit=False
    )
    consumer.assign([place])
    if said is not None:
        consumer.commit({place: kafka.structs.OffsetAndMetadata(*said)})
    found = consumer.committed(place, metadata=True)
    consumer.close(autocommit=False)
    return found.offset, found.metadata, found.leader_epoch


def by_aiokafka(address: str, group: str, topic: str, said: Committed | None = None) -> Committed:
    offset = asyncio.run(_by_aiokafka(address, group, topic, said))
    _, metadata, epoch = committed_line(address, group, topic)
    return offset, metadata, epoch


async def _by_aiokafka(address: str, group: str, topic: str, said: Committed | None) -> int:
    place = aiokafka.TopicPartition(topic, 0)
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=address, group_id=group, enable_auto_commit=False
    )
    consumer.assign([place])
    await consumer.start()
    if said is not None:
        offset, metadata, epoch = said
        assert epoch == NO_EPOCH
        await consumer.commit({place: (offset, metadata)})
    found: int = await consumer.committed(place)
    await consumer.stop()
    return found


BY = {"confluent": by_confluent, "kafka-python": by_kafka_python, "aiokafka": by_aiokafka}
