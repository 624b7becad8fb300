"""S5 to S7: what is read from an offset, within a size, and from a time on."""

import time
from itertools import accumulate

import pytest

from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Record
from tests.support.batches import batch_of
from tests.support.broker_process import BrokerProcess
from tests.support.client_driver import BEGINNING
from tests.support.partition_client import EARLIEST, LATEST, PartitionClient, create_topic

#: Records of each batch.
SIZES = (1, 4, 2, 1, 3, 5, 1, 2, 4, 1)
FIRST_OFFSETS = [0, *accumulate(SIZES)]
END = FIRST_OFFSETS[-1]
SMALL_SEGMENTS = {"segment_bytes": 400, "index_interval_bytes": 100, "retention_ms": -1}
#: Not in order; several records have the same.
TIMESTAMPS = (50, 10, 30, 30, 20, 60, 60, 40, 90, 80, 70, 90, 100, 85)
DAY_MS = 1_700_000_000_000
# Three batches of 129 bytes to a segment of 400: of the five, 700 bytes keep the last three.
LEFT_BY_RETENTION = 6
WAIT_S = 20


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """Which looks all the time for what is too old or too much."""
    data_dir = tmp_path_factory.mktemp("broker") / "logs"
    settings = ("log.retention.check.interval.ms=50", "log.initial.task.delay.ms=0")
    with BrokerProcess(data_dir, *settings).start() as running:
        yield running


@pytest.fixture(scope="module")
def batches(broker):
    """A topic of batches of every size and codec, over several segments."""
    create_topic(broker.address, "batches", **SMALL_SEGMENTS)
    with PartitionClient(broker.address, "batches") as partition:
        for number, size in enumerate(SIZES):
            values = [b"%d.%d" % (number, each) + bytes(20) for each in range(size)]
            line = partition.produce(batch_of(*values, codec=Codec(number % len(Codec))))
            assert (line.error_code, line.base_offset) == (0, FIRST_OFFSETS[number])
    assert len(list((broker.data_dir / "batches-0").glob("*.log"))) > 2
    return "batches"


@pytest.mark.parametrize("max_bytes", [1, 200, 1 << 20])
def test_s5_a_fetch_from_any_offset_begins_with_the_batch_that_holds_it(broker, batches, max_bytes):
    with PartitionClient(broker.address, batches) as partition:
        for offset in range(END):
            fetched = partition.batches(offset, max_bytes=max_bytes)
            assert fetched[0].base_offset <= offset <= fetched[0].last_offset
            begin = FIRST_OFFSETS.index(fetched[0].base_offset)
            following = FIRST_OFFSETS[begin : begin + len(fetched)]
            assert [batch.base_offset for batch in fetched] == following
        assert partition.batches(END) == []


def test_s5_a_consumer_that_begins_anywhere_reads_all_from_there_on(broker, batches, driver):
    with driver.consumer(broker.address) as consumer:
        # Every third one: to librdkafka each is worth half a second.
        for offset in range(0, END, 3):
            received = consumer.read(batches, {0: offset}, count=END - offset)
            assert [each.offset for each in received] == list(range(offset, END))


@pytest.mark.parametrize("max_bytes", [0, 1, 70, 10_000])
def test_s6_a_batch_that_is_larger_than_was_asked_for_comes_whole(broker, max_bytes):
    topic = f"large-{max_bytes}"
    create_topic(broker.address, topic, retention_ms=-1)
    with PartitionClient(broker.address, topic) as partition:
        for number in range(3):
            assert partition.produce(batch_of(bytes(100_000))).base_offset == number
        for number in range(3):
            (batch,) = partition.batches(number, max_bytes=max_bytes)
            assert (batch.base_offset, batch.is_valid()) == (number, True)
            assert len(next(batch.records()).value) == 100_000


def test_s6_a_consumer_with_room_for_less_than_a_batch_reads_on(broker, new_topic, driver):
    topic, sizes = new_topic(retention_ms=-1), [10, 300_000, 20, 500_000, 30, 40]
    with PartitionClient(broker.address, topic) as partition:
        for size in sizes:
            assert partition.produce(batch_of(bytes(size))).error_code == 0
    with driver.consumer(broker.address, fetch_bytes_max=1_000) as consumer:
        received = consumer.read(topic, {0: BEGINNING}, count=len(sizes))
    assert [len(each.value) for each in received] == sizes


@pytest.fixture
def timed(broker, new_topic):
    """A topic of records that were made at TIMESTAMPS, some of them in batches."""
    topic = new_topic(**SMALL_SEGMENTS)
    with PartitionClient(broker.address, topic) as partition:
        for begin in range(0, len(TIMESTAMPS), 2):
            records = [
                Record(number, DAY_MS + at, None, bytes(60), ())
                for number, at in enumerate(TIMESTAMPS[begin : begin + 2])
            ]
            assert partition.produce(batch_of(*records)).base_offset == begin
        assert partition.offset_at(LATEST) == len(TIMESTAMPS)
        yield partition


def assert_found(broker, partition, driver, *, start=0):
    """Below, at, between and above the timestamps, and never before the start."""
    with driver.consumer(broker.address) as consumer:
        for at in range(5, 110, 5):
            young = [n for n, each in enumerate(TIMESTAMPS) if each >= at and n >= start]
            expected = young[0] if young else None
            assert consumer.offset_at(partition.topic, 0, DAY_MS + at) == expected, at


def test_s7_the_first_offset_that_is_as_young_as_a_timestamp_is_found(broker, timed, driver):
    assert_found(broker, timed, driver)


@pytest.mark.parametrize("start", [1, 5, 8, 13, 14])
def test_s7_nothing_before_the_start_is_found_when_records_were_deleted(broker, timed, start):
    assert timed.delete_records(before=start) == start
    for at in range(5, 110, 5):
        young = [n for n, each in enumerate(TIMESTAMPS) if each >= at and n >= start]
        assert timed.offset_at(DAY_MS + at) == (young[0] if young else -1), at


def test_s7_nothing_before_the_start_is_found_when_retention_has_passed(broker, new_topic, driver):
    topic = new_topic(segment_bytes=400, index_interval_bytes=100, retention_bytes=700)
    day_ms = int(time.time() * 1000) - 1_000
    with PartitionClient(broker.address, topic) as partition:
        for at in TIMESTAMPS:
            record = Record(0, day_ms + at, None, bytes(60), ())
            assert partition.produce(batch_of(record)).error_code == 0
        deadline = time.monotonic() + WAIT_S
        while (start := partition.offset_at(EARLIEST)) < LEFT_BY_RETENTION:
            assert time.monotonic() < deadline, start
            time.sleep(0.02)
    with driver.consumer(broker.address) as consumer:
        for at in range(5, 110, 5):
            young = [n for n, each in enumerate(TIMESTAMPS) if each >= at and n >= start]
            expected = young[0] if young else None
            assert consumer.offset_at(topic, 0, day_ms + at) == expected, at
