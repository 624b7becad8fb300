"""A running broker with topics of all kinds, and what a consumer reads in them.

    with-CODEC      every codec, headers, null keys and values, several segments
    transfers       transactions committed, aborted and open, and records outside of them
    compacted       few keys, tombstones, and a cleaner that does not wait
    retained        retention that leaves little

Rows are compared by topic, partition and offset.  Compaction and retention go on meanwhile, so what
is read lies between what a consumer reads before it and after it (``assert_between``).

Owner: the thread that started it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.types import TopicPartition as Partition
from odradek.storage.offset_checkpoints import HIGH_WATERMARKS
from tests.support.broker_process import BrokerProcess
from tests.support.group_members import wait_until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 300
PARTITIONS = 2
ISOLATION_LEVELS = ("read_committed", "read_uncommitted")
TRANSFERS, COMPACTED, RETAINED = "transfers", "compacted", "retained"
TOPICS = (*(f"with-{codec}" for codec in CODECS), TRANSFERS, COMPACTED, RETAINED)

SETTINGS = (
    "replica.high.watermark.checkpoint.interval.ms=100",
    "log.initial.task.delay.ms=0",
    "log.segment.bytes=16384",
    "log.retention.ms=-1",  # the records are years old
    "log.retention.check.interval.ms=100",
    "log.cleaner.backoff.ms=100",
    "log.cleaner.dedupe.buffer.size=2097152",
)
SMALL_SEGMENTS = {"segment.bytes": "4096"}
COMPACTING = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", **SMALL_SEGMENTS}
RETAINING = {"retention.bytes": "4096", **SMALL_SEGMENTS}
TIMEOUT_S = 30
#: For as long as the tests may take.
TRANSACTION_TIMEOUT_MS = 600_000

Row = tuple[Any, ...]
Rows = dict[tuple[str, int, int], Row]


@contextmanager
def live_topics(data_dir: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(data_dir, *SETTINGS).start() as broker:
        settings = {COMPACTED: COMPACTING, RETAINED: RETAINING}
        topics = [NewTopic(name, PARTITIONS, 1, config=settings.get(name, {})) for name in TOPICS]
        create(broker, *topics)
        for codec in CODECS:
            send(broker, f"with-{codec}", range(RECORDS), codec=codec)
        send_values(broker, RETAINED, count=200, keys=200)
        send_values(broker, COMPACTED, count=400, keys=8)
        still_open = transfer(broker)
        wait_until_written_down(broker)
        wait_until(lambda: len(consumed(broker, [COMPACTED])) < 400)
        wait_until(lambda: len(consumed(broker, [RETAINED])) < 200)
        yield broker
        del still_open  # not before: its end would be that of its transaction


def create(broker: BrokerProcess, *topics: NewTopic) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    for created in admin.create_topics(list(topics)).values():
        created.result()


def send(broker: BrokerProcess, topic: str, numbers: Iterable[int], *, codec: str) -> None:
    producer = _producer(broker, **{"compression.type": codec, "batch.num.messages": 7})
    for number in numbers:
        producer.produce(
            topic,
            key=None if number % 5 == 0 else b"key-%d" % (number % 17),
            value=None if number % 7 == 0 else b"value %d " % number * (number % 40),
            headers=[("n", b"%d" % number), ("null", None)] if number % 3 == 0 else [],
            partition=number % PARTITIONS,
            timestamp=1_700_000_000_000 + number,
        )
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def send_values(broker: BrokerProcess, topic: str, *, count: int, keys: int) -> None:
    """Every tenth is a tombstone."""
    producer = _producer(broker, **{"batch.num.messages": 5})
    for number in range(count):
        value = None if number % 10 == 9 else b"value %d" % number * 10
        key = b"key-%d" % (number % keys)
        producer.produce(topic, key=key, value=value, partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def transfer(broker: BrokerProcess) -> Producer:
    """Transactions with records around them; the last is open, and belongs to who is returned."""
    one, other = (_transactional(broker, name) for name in ("one", "other"))
    plain = _producer(broker)
    for number in range(6):
        _transact(one, TRANSFERS, number)
        _send_some(plain, TRANSFERS, b"in none, after %d" % number)
    other.begin_transaction()
    _send_some(other, TRANSFERS, b"in an open transaction")
    _send_some(plain, TRANSFERS, b"behind an open transaction")
    return other


def transact_until(broker: BrokerProcess, topic: str, is_enough: Callable[[], bool]) -> None:
    """One transaction after the other, some of them aborted."""
    producer = _transactional(broker, f"writes {topic}")
    for number in count():
        _transact(producer, topic, number)
        if is_enough():
            return


def _transact(producer: Producer, topic: str, number: int) -> None:
    producer.begin_transaction()
    _send_some(producer, topic, b"in transaction %d" % number)
    if number % 3 == 1:
        producer.abort_transaction()
    else:
        producer.commit_transaction()


def _producer(broker: BrokerProcess, **settings: Any) -> Producer:
    told = {"bootstrap.servers": broker.address, "enable.idempotence": True, "linger.ms": 1}
    return Producer({**told, **settings})


def _transactional(broker: BrokerProcess, name: str) -> Producer:
    timeout = {"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
    producer = _producer(broker, **{"transactional.id": name}, **timeout)
    producer.init_transactions(TIMEOUT_S)
    return producer


def _send_some(producer: Producer, topic: str, value: bytes) -> None:
    for number in range(10):
        producer.produce(topic, value=b"%s: %d" % (value, number), partition=number % PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0


def consumed(
    broker: BrokerProcess, topics: Iterable[str], isolation_level: str = "read_committed"
) -> Rows:
    """Everything that is there."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "compares",
            "isolation.level": isolation_level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,  # before it is told that a partition has ended
        }
    )
    places = [
        TopicPartition(topic, partition, OFFSET_BEGINNING)
        for topic in topics
        for partition in range(PARTITIONS)
    ]
    found: Rows = {}
    ended = set()
    try:
        consumer.assign(places)
        while len(ended) < len(places):
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            if message.error() is None:
                place, row = _row(message)
                found[place] = row
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add((message.topic(), message.partition()))
    finally:
        consumer.close()
    return found


def _row(message: Any) -> tuple[tuple[str, int, int], Row]:
    return (
        (message.topic(), message.partition(), message.offset()),
        (message.key(), message.value(), message.timestamp(), message.headers() or []),
    )


def keyed(rows: Iterable[dict[str, Any]]) -> Rows:
    """Rows of a scan, or of Spark, as a consumer's are; their offsets must ascend."""
    found: Rows = {}
    lasts: dict[tuple[str, int], int] = {}
    for row in rows:
        partition = (row["topic"], row["partition"])
        assert lasts.get(partition, -1) < row["offset"]
        lasts[partition] = row["offset"]
        found[*partition, row["offset"]] = (
            row["key"],
            row["value"],
            # The client's numbers for the types begin with that of none.
            (row["timestampType"] + 1, row["timestamp"]),
            [(header["key"], header["value"]) for header in row["headers"] or ()],
        )
    return found


def assert_between(after: Rows, found: Rows, before: Rows) -> None:
    """What is read lies between what a consumer read before it and after it."""
    assert _unlike(after, found) == {}
    assert _unlike(found, before) == {}


def _unlike(fewer: Rows, more: Rows) -> Rows:
    return {place: row for place, row in fewer.items() if more.get(place) != row}


def written_down(broker: BrokerProcess) -> dict[Partition, int]:
    """The high watermarks that a scan goes by."""
    return HIGH_WATERMARKS.read(broker.data_dir)


def wait_until_written_down(broker: BrokerProcess) -> None:
    """Until they are those that the broker tells its consumers now."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "looks"})
    try:
        ends = {
            Partition(topic, partition): consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=TIMEOUT_S
            )[1]
            for topic in TOPICS
            for partition in range(PARTITIONS)
        }
    finally:
        consumer.close()
    wait_until(lambda: all(written_down(broker).get(each, 0) >= end for each, end in ends.items()))
