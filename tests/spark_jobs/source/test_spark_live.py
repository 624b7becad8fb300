"""Spark reads the same records as a consumer from a running broker."""

import threading

import pytest

from odradek.protocol.types import TopicPartition
from tests.support.live_topics import (
    ISOLATION_LEVELS,
    PARTITIONS,
    RECORDS,
    TOPICS,
    assert_between,
    consumed,
    keyed,
    send,
    wait_until_written_down,
    written_down,
)
from tests.support.spark_session import rows, table


def read(spark, broker, **options):
    frame = table(spark, broker.data_dir, includeHeaders="true", mode="FAILFAST", **options)
    return keyed(rows(frame))


@pytest.mark.parametrize("isolation_level", ISOLATION_LEVELS)
def test_spark_reads_the_same_as_a_consumer(spark, live_broker, isolation_level):
    wait_until_written_down(live_broker)
    before = consumed(live_broker, TOPICS, isolation_level)
    # Small splits, so that transactions span several of them.
    records = read(
        spark,
        live_broker,
        topics=",".join(TOPICS),
        isolationLevel=isolation_level,
        maxSplitBytes="3000",
    )
    assert_between(consumed(live_broker, TOPICS, isolation_level), records, before)
    assert {topic for topic, _, _ in records} == set(TOPICS)


def test_spark_reads_a_prefix_while_a_producer_writes(spark, live_broker):
    topic = "with-zstd"
    numbers = range(RECORDS, 3 * RECORDS)
    writer = threading.Thread(
        target=send, args=(live_broker, topic, numbers), kwargs={"codec": "zstd"}
    )
    before = written_down(live_broker)
    writer.start()
    read_rows = read(spark, live_broker, topics=topic)
    writer.join()
    expected = consumed(live_broker, [topic])
    for partition in range(PARTITIONS):
        from_spark = [
            (position, row) for position, row in read_rows.items() if position[1] == partition
        ]
        from_consumer = [
            (position, row) for position, row in expected.items() if position[1] == partition
        ]
        assert len(from_spark) >= before[TopicPartition(topic, partition)]
        assert from_spark == from_consumer[: len(from_spark)]
