"""A broker that is running and being written to, scanned: the same as a consumer reads.

Compared up to the high watermark that the broker has written down, which is all a scan reads.
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
    found = Scanned(
        str(broker.data_dir),
        topics=topics,
        includeHeaders="true",
        isolationLevel=isolation_level,
        mode="FAILFAST",
    )
    return keyed(found.rows)


@pytest.mark.parametrize("isolation_level", ISOLATION_LEVELS)
def test_a_scan_reads_what_a_consumer_reads(live_broker, isolation_level):
    wait_until_written_down(live_broker)
    before = consumed(live_broker, TOPICS, isolation_level)
    found = scanned(live_broker, ",".join(TOPICS), isolation_level)
    assert_between(consumed(live_broker, TOPICS, isolation_level), found, before)
    assert {topic for topic, _, _ in found} == set(TOPICS)


def test_a_scan_beside_a_producer_sees_a_beginning_of_what_is_written(live_broker):
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
    for before, found in scans:
        for partition in range(PARTITIONS):
            of_scan = [(place, row) for place, row in found.items() if place[1] == partition]
            of_consumer = [(place, row) for place, row in expected.items() if place[1] == partition]
            assert len(of_scan) >= before[TopicPartition(topic, partition)]
            assert of_scan == of_consumer[: len(of_scan)]


def test_a_scan_beside_transactions_sees_what_is_committed_by_then(live_broker):
    topic = "transfers-go-on"
    create(live_broker, NewTopic(topic, PARTITIONS, 1, config=SMALL_SEGMENTS))
    scans = {level: [] for level in ISOLATION_LEVELS}

    def is_enough():
        """Every level was scanned in the midst of it, in several states, over several segments."""
        has_rolled = len(list((live_broker.data_dir / f"{topic}-0").glob("*.log"))) > 2
        return has_rolled and all(len(set(map(len, found))) > 3 for found in scans.values())

    writer = threading.Thread(target=transact_until, args=(live_broker, topic, is_enough))
    writer.start()
    while writer.is_alive():
        for level, found in scans.items():
            found.append(scanned(live_broker, topic, level))
    writer.join()
    for level, found in scans.items():
        expected = consumed(live_broker, [topic], level)
        for one, other in pairwise([*found, expected]):
            for partition in range(PARTITIONS):
                beginning, longer = (
                    [(place, row) for place, row in each.items() if place[1] == partition]
                    for each in (one, other)
                )
                assert beginning == longer[: len(beginning)]


def test_segments_have_rolled_and_batches_add_up(live_broker):
    """What the others compare is of several segments, and headers of batches tell the same sums."""
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
