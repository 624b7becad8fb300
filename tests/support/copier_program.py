"""A copier, in a process of its own: reads a topic and writes another, in transactions.

    python -m tests.support.copier_program LIBRARY ADDRESS OPTIONS

OPTIONS are a JSON object; see ``CopierOptions`` in copiers.py.  It prints events, among them what
was polled in each transaction, and takes orders, as group_member_program.py: ``close`` ends it
between two transactions, ``dawdle`` lets its next one last for longer than its timeout.  It ends by
itself, with status 1, when it is refused something for good: then another has its transactional id,
or its transaction took too long.

By confluent the copiers of a group share the partitions, and tell the coordinator their generation
(KIP-447).  aiokafka cannot do that, nor does it know whether an offset is stable: a copier has its
partitions for good, and a transactional id with them, so that whoever comes after it ends what it
left behind before reading where it stopped.  Where the first begins must be committed before.
"""

import asyncio
import json
import logging
import os
import sys
import time
from random import Random
from types import SimpleNamespace
from typing import Any

from tests.support.group_member_program import orders, tell
from tests.support.persistent_load import RECONNECT, Silent, transactional_producer

READ_MAX = 10
TIMEOUT_S = 30
COPIED, ABORTED = b"copy of ", b"never to be seen: "


class Pace:
    """When the copier is to end, dawdle, or abort on purpose."""

    def __init__(self, options: SimpleNamespace) -> None:
        self._orders = orders()
        self._random = Random(options.transactional_id)
        self._options = options
        self._is_to_dawdle = False

    def goes_on(self) -> bool:
        while not self._orders.empty():
            (order,) = self._orders.get()
            if order == "close":
                return False
            self._is_to_dawdle = True
        return True

    def is_to_abort(self) -> bool:
        return self._random.random() < self._options.abort_share

    def pause_s(self) -> float:
        """In the middle of a transaction."""
        if self._is_to_dawdle:
            self._is_to_dawdle = False
            return 1.5 * self._options.timeout_ms / 1000
        return self._random.uniform(0, self._options.pause_s)


def run_confluent(address: str, options: SimpleNamespace) -> None:
    from confluent_kafka import Consumer

    from tests.support.confluent_member import confluent_settings

    producer = transactional_producer(
        address, options.transactional_id, timeout_ms=options.timeout_ms
    )
    trying(producer.init_transactions)
    reading = {"isolation.level": "read_committed", **RECONNECT}
    consumer = Consumer(confluent_settings(address, options) | reading, logger=Silent())
    consumer.subscribe([options.source])
    pace = Pace(options)
    tell("ready")
    while pace.goes_on():
        messages = [each for each in consumer.consume(READ_MAX, timeout=0.1) if not each.error()]
        if messages:
            copy_by_confluent(producer, consumer, messages, pace, options.target)
    consumer.close()


def trying(call: Any, *arguments: Any) -> None:
    """Again, as long as the library says that it may help."""
    from confluent_kafka import KafkaException

    while True:
        try:
            return call(*arguments, TIMEOUT_S)
        except KafkaException as refusal:
            if not refusal.args[0].retriable():
                raise


def copy_by_confluent(
    producer: Any, consumer: Any, messages: list[Any], pace: Pace, target: str
) -> None:
    from confluent_kafka import KafkaException, TopicPartition

    firsts: dict[tuple[str, int], int] = {}
    nexts: dict[tuple[str, int], int] = {}
    for each in messages:
        where = each.topic(), each.partition()
        firsts.setdefault(where, each.offset())
        nexts[where] = each.offset() + 1

    def rewind() -> None:
        for where, offset in firsts.items():
            consumer.seek(TopicPartition(*where, offset))

    told = [(each.partition(), each.offset(), each.value()) for each in messages]
    is_doomed = pace.is_to_abort()
    try:
        producer.begin_transaction()
        for each in messages:
            value = (ABORTED if is_doomed else COPIED) + each.value()
            producer.produce(target, value, partition=each.partition())
        producer.flush(TIMEOUT_S)
        time.sleep(pace.pause_s())
        if is_doomed:
            trying(producer.abort_transaction)
            tell("aborted", **told_of(told))
            return rewind()
        offsets = [TopicPartition(*where, offset) for where, offset in nexts.items()]
        metadata = consumer.consumer_group_metadata()
        trying(producer.send_offsets_to_transaction, offsets, metadata)
        trying(producer.commit_transaction)
        tell("copied", **told_of(told))
    except KafkaException as refusal:
        if not refusal.args[0].txn_requires_abort():
            raise
        tell("refused", error=refusal.args[0].name())
        trying(producer.abort_transaction)
        rewind()


def run_aiokafka(address: str, options: SimpleNamespace) -> None:
    asyncio.run(_run_aiokafka(address, options))


async def _run_aiokafka(address: str, options: SimpleNamespace) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    # A broker that was killed is worth no word.
    logging.disable()
    producer = AIOKafkaProducer(
        bootstrap_servers=address,
        transactional_id=options.transactional_id,
        transaction_timeout_ms=options.timeout_ms,
        retry_backoff_ms=50,
    )
    await producer.start()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=address,
        group_id=options.group,
        isolation_level="read_committed",
        # Its coordinator may be loading: 0.14 does not see that it says so, nor that there is more.
        auto_offset_reset="none",
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
        retry_backoff_ms=50,
    )
    await consumer.start()
    consumer.assign([TopicPartition(options.source, each) for each in options.partitions])
    pace = Pace(options)
    tell("ready")
    while pace.goes_on():
        polled = await consumer.getmany(timeout_ms=100, max_records=READ_MAX)
        if polled:
            await copy_by_aiokafka(producer, consumer, polled, pace, options)
    await consumer.stop()
    await producer.stop()


async def copy_by_aiokafka(
    producer: Any, consumer: Any, polled: dict[Any, list[Any]], pace: Pace, options: SimpleNamespace
) -> None:
    records = [each for some in polled.values() for each in some]
    told = [(each.partition, each.offset, each.value) for each in records]
    is_doomed = pace.is_to_abort()
    await producer.begin_transaction()
    waiting = [
        await producer.send(
            options.target,
            (ABORTED if is_doomed else COPIED) + each.value,
            partition=each.partition,
        )
        for each in records
    ]
    # What has failed is not told by the commit.
    await asyncio.gather(*waiting)
    await asyncio.sleep(pace.pause_s())
    if is_doomed:
        await producer.abort_transaction()
        tell("aborted", **told_of(told))
        for where, some in polled.items():
            consumer.seek(where, some[0].offset)
        return
    offsets = {where: some[-1].offset + 1 for where, some in polled.items()}
    await producer.send_offsets_to_transaction(offsets, options.group)
    await producer.commit_transaction()
    tell("copied", **told_of(told))


def told_of(polled: list[tuple[int, int, bytes]]) -> dict[str, Any]:
    """Partition, offset and value of each record that was read in a transaction."""
    return {
        "count": len(polled),
        "polled": [[partition, offset, value.decode()] for partition, offset, value in polled],
    }


def refusals() -> tuple[type[Exception], ...]:
    import aiokafka.errors
    import confluent_kafka

    return confluent_kafka.KafkaException, aiokafka.errors.KafkaError


def main() -> None:
    library, address, told = sys.argv[1:]
    run = {"confluent": run_confluent, "aiokafka": run_aiokafka}[library]
    try:
        run(address, SimpleNamespace(**json.loads(told)))
    except refusals() as refusal:
        tell("ended", error=str(refusal))
        os._exit(1)  # without a word from what is left open
    tell("closed")


if __name__ == "__main__":
    main()
