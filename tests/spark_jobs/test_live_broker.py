"""A broker that is running and being written to, scanned: the same as a consumer reads.

Compared up to the high watermark that the broker has written down, which is all a scan reads.
"""

import json
import threading

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.protocol.types import TopicPartition as Partition
from odradek.storage.offset_checkpoints import HIGH_WATERMARKS
from tests.support.broker_process import BrokerProcess
from tests.support.scans import Scanned

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 300
PARTITIONS = 2
ISOLATION_LEVELS = ("read_committed", "read_uncommitted")


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("live") / "logs"
    settings = (
        "replica.high.watermark.checkpoint.interval.ms=100",
        "log.initial.task.delay.ms=0",
        "log.segment.bytes=16384",
        "log.retention.ms=-1",  # the records are years old
    )
    with BrokerProcess(data_dir, *settings).start() as process:
        admin = AdminClient({"bootstrap.servers": process.address})
        topics = [NewTopic(f"with-{codec}", PARTITIONS, 1) for codec in CODECS]
        for created in admin.create_topics(topics).values():
            created.result()
        for codec in CODECS:
            send(process, codec, range(RECORDS))
        yield process


def send(broker, codec, numbers):
    producer = Producer(
        {
            "bootstrap.servers": broker.address,
            "compression.type": codec,
            "enable.idempotence": True,
            "batch.num.messages": 7,
        }
    )
    for number in numbers:
        producer.produce(
            f"with-{codec}",
            key=None if number % 5 == 0 else b"key-%d" % (number % 17),
            value=None if number % 7 == 0 else b"value %d " % number * (number % 40),
            headers=[("n", b"%d" % number), ("null", None)] if number % 3 == 0 else [],
            partition=number % PARTITIONS,
            timestamp=1_700_000_000_000 + number,
        )
        producer.poll(0)
    assert producer.flush(30) == 0


def consumed(broker, topic, isolation_level):
    """Everything that is there, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "compares",
            "isolation.level": isolation_level,
            "enable.auto.commit": False,
        }
    )
    found = []
    try:
        for partition in range(PARTITIONS):
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
            consumer.assign([TopicPartition(topic, partition, 0)])
            while not found or found[-1][:2] < (partition, end - 1):
                message = consumer.poll(30)
                assert message is not None
                assert message.error() is None
                found.append(
                    (
                        partition,
                        message.offset(),
                        message.key(),
                        message.value(),
                        message.timestamp(),
                        message.headers() or [],
                    )
                )
    finally:
        consumer.close()
    return found


def scanned(broker, topic, isolation_level):
    found = Scanned(
        str(broker.data_dir),
        topics=topic,
        includeHeaders="true",
        isolationLevel=isolation_level,
        mode="FAILFAST",
    )
    return [
        (
            row["partition"],
            row["offset"],
            row["key"],
            row["value"],
            # The client's numbers for the types begin with that of none.
            (row["timestampType"] + 1, row["timestamp"]),
            [(header["key"], header["value"]) for header in row["headers"] or ()],
        )
        for row in found.rows
    ]


def written_down(broker, topic):
    return {
        partition: HIGH_WATERMARKS.read(broker.data_dir).get(Partition(topic, partition), 0)
        for partition in range(PARTITIONS)
    }


def wait_until_written_down(broker, topic, count):
    """The broker does so by itself, soon: looking again is all there is to wait for."""
    while sum(written_down(broker, topic).values()) < count:
        threading.Event().wait(0.02)


@pytest.mark.parametrize("isolation_level", ISOLATION_LEVELS)
@pytest.mark.parametrize("codec", CODECS)
def test_a_scan_reads_what_a_consumer_reads(broker, codec, isolation_level):
    topic = f"with-{codec}"
    wait_until_written_down(broker, topic, RECORDS)
    found = scanned(broker, topic, isolation_level)
    assert len(found) >= RECORDS
    ends = {partition: offset + 1 for partition, offset, *_ in found}
    expected = consumed(broker, topic, isolation_level)
    assert found == [row for row in expected if row[1] < ends[row[0]]]


def test_a_scan_beside_a_producer_sees_a_beginning_of_what_is_written(broker):
    topic = "with-lz4"
    writer = threading.Thread(target=send, args=(broker, "lz4", range(RECORDS, 6 * RECORDS)))
    writer.start()
    scans = []
    while writer.is_alive() or not scans:
        before = written_down(broker, topic)
        scans.append((before, scanned(broker, topic, "read_committed")))
    writer.join()
    expected = consumed(broker, topic, "read_committed")
    for before, found in scans:
        for partition in range(PARTITIONS):
            of_scan = [row for row in found if row[0] == partition]
            of_consumer = [row for row in expected if row[0] == partition]
            assert len(of_scan) >= before[partition]
            assert of_scan == of_consumer[: len(of_scan)]


def test_segments_have_rolled_and_batches_add_up(broker):
    """What the others compare is of several segments, and headers of batches tell the same sums."""
    topic = "with-none"
    wait_until_written_down(broker, topic, RECORDS)
    assert len(list((broker.data_dir / f"{topic}-0").glob("*.log"))) > 1
    rows = Scanned(
        str(broker.data_dir), assign=json.dumps({topic: [0]}), view="batches", columns="count,codec"
    ).rows
    assert sum(row["count"] for row in rows) == RECORDS // PARTITIONS
    assert {row["codec"] for row in rows} == {"none"}
