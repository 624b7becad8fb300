"""A scan of a running broker reads the same records as a consumer.

They are compared up to the checkpointed high watermark, where a scan ends.
"""

import json
import threading
from itertools import pairwise

import pytest
from confluent_kafka.admin import NewTopic

from odradek.protocol.types import TopicPartition
from tests.support.live_topics import (
    ISOLATION_LEVELS,
    PARTITIONS,
    RECORDS,
    SMALL_SEGMENTS,
    TOPICS,
    assert_between,
    consumed,
    create,
    keyed,
    send,
    transact_until,
    wait_until_written_down,
    written_down,
)
from tests.support.scans import Scanned


def scanned(broker, topics, isolation_level):
    scan = Scanned(
        str(broker.data_dir),
        topics=topics,
        includeHeaders="true",
        isolationLevel=isolation_level,
        mode="FAILFAST",
    )
    return keyed(scan.rows)


@pytest.mark.parametrize("isolation_level", ISOLATION_LEVELS)
def test_scan_reads_the_same_as_a_consumer(live_broker, isolation_level):
    wait_until_written_down(live_broker)
    before = consumed(live_broker, TOPICS, isolation_level)
    records = scanned(live_broker, ",".join(TOPICS), isolation_level)
    assert_between(consumed(live_broker, TOPICS, isolation_level), records, before)
    assert {topic for topic, _, _ in records} == set(TOPICS)


def test_scan_reads_a_prefix_while_a_producer_writes(live_broker):
    topic = "with-lz4"
    numbers = range(RECORDS, 6 * RECORDS)
    writer = threading.Thread(
        target=send, args=(live_broker, topic, numbers), kwargs={"codec": "lz4"}
    )
    writer.start()
    scans = []
    while writer.is_alive() or not scans:
        before = written_down(live_broker)
        scans.append((before, scanned(live_broker, topic, "read_committed")))
    writer.join()
    expected = consumed(live_broker, [topic])
    for before, records in scans:
        for partition in range(PARTITIONS):
            from_scan = [
                (position, row) for position, row in records.items() if position[1] == partition
            ]
            from_consumer = [
                (position, row) for position, row in expected.items() if position[1] == partition
            ]
            assert len(from_scan) >= before[TopicPartition(topic, partition)]
            assert from_scan == from_consumer[: len(from_scan)]


def test_scan_reads_a_prefix_of_committed_records_during_transactions(live_broker):
    topic = "transfers-go-on"
    create(live_broker, NewTopic(topic, PARTITIONS, 1, config=SMALL_SEGMENTS))
    scans = {level: [] for level in ISOLATION_LEVELS}

    def is_enough():
        """Each level was scanned in several states, over several segments."""
        has_rolled = len(list((live_broker.data_dir / f"{topic}-0").glob("*.log"))) > 2
        return has_rolled and all(len(set(map(len, results))) > 3 for results in scans.values())

    writer = threading.Thread(target=transact_until, args=(live_broker, topic, is_enough))
    writer.start()
    while writer.is_alive():
        for level, results in scans.items():
            results.append(scanned(live_broker, topic, level))
    writer.join()
    for level, results in scans.items():
        expected = consumed(live_broker, [topic], level)
        for earlier, later in pairwise([*results, expected]):
            for partition in range(PARTITIONS):
                prefix, longer = (
                    [
                        (position, row)
                        for position, row in records.items()
                        if position[1] == partition
                    ]
                    for records in (earlier, later)
                )
                assert prefix == longer[: len(prefix)]


def test_segments_have_rolled_and_batch_counts_add_up(live_broker):
    """The comparisons cover several segments, and batch headers give the same totals."""
    topic = "with-none"
    wait_until_written_down(live_broker)
    assert len(list((live_broker.data_dir / f"{topic}-0").glob("*.log"))) > 1
    rows = Scanned(
        str(live_broker.data_dir),
        assign=json.dumps({topic: [0]}),
        view="batches",
        columns="count,codec",
    ).rows
    assert sum(row["count"] for row in rows) == RECORDS // PARTITIONS
    assert {row["codec"] for row in rows} == {"none"}
