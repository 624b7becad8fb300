"""A broker that is running and being written to, read through Spark: as a consumer reads it."""

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
def test_spark_reads_what_a_consumer_reads(spark, live_broker, isolation_level):
    wait_until_written_down(live_broker)
    before = consumed(live_broker, TOPICS, isolation_level)
    # Small splits: transactions reach from one into another.
    found = read(
        spark,
        live_broker,
        topics=",".join(TOPICS),
        isolationLevel=isolation_level,
        maxSplitBytes="3000",
    )
    assert_between(consumed(live_broker, TOPICS, isolation_level), found, before)
    assert {topic for topic, _, _ in found} == set(TOPICS)


def test_beside_a_producer_spark_sees_a_beginning_of_what_is_written(spark, live_broker):
    topic = "with-zstd"
    numbers = range(RECORDS, 3 * RECORDS)
    writer = threading.Thread(
        target=send, args=(live_broker, topic, numbers), kwargs={"codec": "zstd"}
    )
    before = written_down(live_broker)
    writer.start()
    found = read(spark, live_broker, topics=topic)
    writer.join()
    expected = consumed(live_broker, [topic])
    for partition in range(PARTITIONS):
        of_spark = [(place, row) for place, row in found.items() if place[1] == partition]
        of_consumer = [(place, row) for place, row in expected.items() if place[1] == partition]
        assert len(of_spark) >= before[TopicPartition(topic, partition)]
        assert of_spark == of_consumer[: len(of_spark)]
