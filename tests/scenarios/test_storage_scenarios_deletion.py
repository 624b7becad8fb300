"""S8: records are deleted, by retention and by request, while others are written and read."""

import itertools
import time
from random import Random

import pytest

from odradek.protocol.error_codes import ErrorCode
from tests.support.broker_process import BrokerProcess
from tests.support.partition_client import EARLIEST, LATEST, PartitionClient, create_topic
from tests.support.persistent_load import PersistentConsumer, PersistentProducer

TOPIC = "deleted"
RETAINED_BYTES = 20_000
STARTS = 25
WAIT_S = 20
SETTINGS = (
    "log.retention.check.interval.ms=50",
    "log.initial.task.delay.ms=0",
    "log.segment.delete.delay.ms=0",
)


@pytest.fixture
def broker(tmp_path):
    with BrokerProcess(tmp_path / "logs", *SETTINGS).start() as running:
        yield running
        assert "Traceback" not in running.log_text


def test_s8_the_start_only_grows_and_what_is_left_is_whole(broker):
    create_topic(broker.address, TOPIC, segment_bytes=4_000, retention_bytes=RETAINED_BYTES)
    producer = PersistentProducer(
        broker.address, TOPIC, name="value", partitions=1, **{"batch.num.messages": 20}
    )
    consumer = PersistentConsumer(
        broker.address, TOPIC, partitions=1, **{"auto.offset.reset": "earliest"}
    )
    producer.start()
    consumer.start()
    with PartitionClient(broker.address, TOPIC) as partition:
        starts = watched_starts(partition, Random(0))
        producer.stop()
        end = partition.offset_at(LATEST)
        wait_until_read(consumer, up_to=end)
        consumer.stop()
        assert starts == sorted(starts)
        assert (producer.failures, consumer.failures) == ([], [])
        offsets = {place.offset: value for value, place in producer.acknowledged.items()}
        assert sorted(offsets) == list(range(end))
        start = partition.offset_at(EARLIEST)
        assert start >= starts[-1]
        check_reading(consumer.found[0], offsets, start=start)
        left = [(record.offset, record.value) for record in partition.records()]
    assert left == [(offset, offsets[offset]) for offset in range(left[0][0], end)]
    assert left[0][0] >= start


def watched_starts(partition, random):
    """Records are deleted now and then; all that may be said of the start is checked."""
    starts, deadline = [], time.monotonic() + WAIT_S
    for number in itertools.count():
        if len(set(starts)) >= STARTS:
            return starts
        assert time.monotonic() < deadline, starts
        start, end = partition.offset_at(EARLIEST), partition.offset_at(LATEST)
        starts.append(start)
        if number % 3 == 0:
            before = random.randint(start, start + (end - start) // 4)
            starts.append(partition.delete_records(before=before))
            assert starts[-1] >= before
        if starts[-1]:
            refused = partition.fetch(starts[-1] - 1)
            assert ErrorCode.for_code(refused.error_code) is ErrorCode.OFFSET_OUT_OF_RANGE
        fetched = partition.fetch(end)
        if not fetched.error_code:  # or all of it is gone by now
            starts.append(fetched.log_start_offset)
        time.sleep(0.01)
    return None


def wait_until_read(consumer, *, up_to):
    deadline = time.monotonic() + WAIT_S
    while not consumer.found[0] or consumer.found[0][-1][0] < up_to - 1:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def check_reading(found, offsets, *, start):
    """What was passed over is there no more; all else is as it was acknowledged."""
    assert all(offsets[offset] == value for offset, value in found)
    for (before, _), (after, _) in itertools.pairwise(found):
        assert after > before
        assert after == before + 1 or after <= start
