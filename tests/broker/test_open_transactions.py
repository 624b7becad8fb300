"""What consumers see of a partition in which transactions are open, by raw requests."""

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.partition_client import (
    LATEST,
    READ_COMMITTED,
    PartitionClient,
    create_topic,
)
from tests.support.transactional_writer import WITHOUT_QUESTIONS, TransactionalWriter

#: A batch of one small record has about 70 bytes: a few go into each segment.
SEGMENT_BYTES = 300


@pytest.fixture
def broker(tmp_path):
    with BrokerProcess(tmp_path / "data", WITHOUT_QUESTIONS).start() as broker:
        yield broker


@pytest.fixture
def writer(broker):
    create_topic(broker.address, "events", segment_bytes=SEGMENT_BYTES)
    with PartitionClient(broker.address, "events") as client:
        yield TransactionalWriter(client)


def stable_end(writer):
    """As Fetch and ListOffsets both tell it."""
    fetched = writer.client.fetch(0, isolation_level=READ_COMMITTED).last_stable_offset
    assert writer.client.offset_at(LATEST, isolation_level=READ_COMMITTED) == fetched
    return fetched


def values(records):
    return [record.value for record in records]


def aborted(line):
    return [(each.producer_id, each.first_offset) for each in line.aborted_transactions]


def test_t3_nothing_is_read_from_the_first_open_transaction_on(writer):
    writer.write_plain(b"0")
    first = writer.write(7, b"1")
    writer.write_plain(b"2")
    assert first == 1
    assert stable_end(writer) == first
    assert writer.client.offset_at(LATEST) == 3
    for offset, seen in [(0, [b"0"]), (1, []), (2, [])]:
        assert values(writer.committed(offset) if offset <= first else []) == seen
        line = writer.client.fetch(offset, isolation_level=READ_COMMITTED)
        assert line.error_code == 0
        assert bool(line.records) == (offset < first)
        assert line.high_watermark == 3


def test_t3_the_earliest_of_several_counts(writer):
    writer.write(7, b"a")
    writer.write(8, b"b")
    writer.end(8, commit=True)
    assert stable_end(writer) == 0
    writer.end(7, commit=True)
    assert stable_end(writer) == 4
    assert values(writer.committed()) == [b"a", b"b"]


def test_t13_markers_at_the_end_do_not_stall_a_consumer(writer):
    for producer_id in (7, 8, 9):
        writer.write(producer_id, b"x")
    for producer_id in (7, 8, 9):
        writer.end(producer_id, commit=False)
    line = writer.client.fetch(3, isolation_level=READ_COMMITTED)
    assert line.records
    assert stable_end(writer) == line.high_watermark == 6
    assert writer.committed() == []


def test_t14_what_was_aborted_is_told_in_order_and_to_committed_readers_only(writer):
    for producer_id in (9, 7, 8):
        writer.write(producer_id, b"x")
    for producer_id in (8, 9, 7):
        writer.end(producer_id, commit=False)
    whole = {"max_bytes": 1 << 20}
    line = writer.client.fetch(0, isolation_level=READ_COMMITTED, **whole)
    assert aborted(line) == sorted(aborted(line), key=lambda each: each[1])
    assert aborted(line)[0] == (9, 0)
    assert writer.client.fetch(0, **whole).aborted_transactions is None


@pytest.fixture(params=["at once", "stopped", "killed"])
def later(request, broker, writer):
    """The same partition after nothing, a clean stop or a crash."""

    def again():
        if request.param == "at once":
            return writer
        writer.client.close()
        broker.kill() if request.param == "killed" else broker.stop()
        broker.start()
        writer.client.wire = PartitionClient(broker.address, "events").wire
        return writer

    yield again
    writer.client.close()


def test_across_segments_only_what_was_committed_is_seen_and_all_of_it(writer, later):
    expected = []
    for number in range(12):
        committed, dropped = b"c%d" % number, b"d%d" % number
        writer.write(7, committed)
        writer.write(8, dropped)
        writer.write_plain(b"p%d" % number)
        writer.end(8, commit=False)
        writer.end(7, commit=True)
        expected += [committed, b"p%d" % number]
    opened = writer.write(9, b"open")
    writer.write_plain(b"after")
    writer = later()
    assert stable_end(writer) == opened
    for max_bytes in (1, 100, 1000, 1 << 20):
        assert values(writer.committed(max_bytes=max_bytes)) == expected
    everything = values(writer.client.records())
    assert everything == [
        each for number in range(12) for each in (b"c%d" % number, b"d%d" % number, b"p%d" % number)
    ] + [b"open", b"after"]
    writer.end(9, commit=True)
    assert values(writer.committed()) == [*expected, b"open", b"after"]
    assert stable_end(writer) == writer.client.offset_at(LATEST)


def test_a_long_transaction_is_told_of_wherever_it_is_read(writer, later):
    first = writer.write(7, b"d0")
    for number in range(1, 10):
        writer.write(7, b"d%d" % number)
        writer.write_plain(b"p%d" % number)
    writer.end(7, commit=False)
    writer = later()
    for offset in range(first, writer.client.offset_at(LATEST) - 1):
        line = writer.client.fetch(offset, isolation_level=READ_COMMITTED)
        assert aborted(line) == [(7, first)], offset
    assert values(writer.committed(max_bytes=1)) == [b"p%d" % number for number in range(1, 10)]


def test_describe_producers_shows_who_has_a_transaction_open(writer, later):
    writer.write_plain(b"0")
    writer.write(7, b"1", b"2")
    writer.write(8, b"3")
    writer.end(8, commit=True, epoch=4)
    writer = later()
    shown = {
        each.producer_id: (
            each.producer_epoch,
            each.last_sequence,
            each.current_txn_start_offset,
            each.coordinator_epoch,
        )
        for each in writer.client.producers()
    }
    assert shown == {7: (0, 1, 1, -1), 8: (4, -1, -1, 0)}


def test_a_timestamp_is_looked_for_among_what_is_stable_only(writer):
    writer.write_plain(b"0")
    writer.write(7, b"1")
    stable, uncommitted = (
        writer.client.offset_at(0, isolation_level=READ_COMMITTED),
        writer.client.offset_at(0),
    )
    assert stable == uncommitted == 0
    writer.client.delete_records(before=1)
    assert writer.client.offset_at(0) == 1
    assert writer.client.offset_at(0, isolation_level=READ_COMMITTED) == -1
