"""Fetch and ListOffsets on a partition with open transactions, by raw requests."""

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.partition_client import (
    LATEST,
    READ_COMMITTED,
    PartitionClient,
    create_topic,
)
from tests.support.transactional_writer import WITHOUT_QUESTIONS, TransactionalWriter

#: A batch of one small record has about 70 bytes: each segment holds a few batches.
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


def last_stable_offset(writer):
    """Returns the last stable offset, the same in Fetch and ListOffsets."""
    fetched = writer.client.fetch(0, isolation_level=READ_COMMITTED).last_stable_offset
    assert writer.client.offset_at(LATEST, isolation_level=READ_COMMITTED) == fetched
    return fetched


def values(records):
    return [record.value for record in records]


def aborted(partition_response):
    return [
        (transaction.producer_id, transaction.first_offset)
        for transaction in partition_response.aborted_transactions
    ]


def test_t3_read_committed_ends_at_the_first_open_transaction(writer):
    writer.write_plain(b"0")
    first = writer.write(7, b"1")
    writer.write_plain(b"2")
    assert first == 1
    assert last_stable_offset(writer) == first
    assert writer.client.offset_at(LATEST) == 3
    for offset, expected in [(0, [b"0"]), (1, []), (2, [])]:
        assert values(writer.committed(offset) if offset <= first else []) == expected
        partition_response = writer.client.fetch(offset, isolation_level=READ_COMMITTED)
        assert partition_response.error_code == 0
        assert bool(partition_response.records) == (offset < first)
        assert partition_response.high_watermark == 3


def test_t3_earliest_of_several_open_transactions_is_the_last_stable_offset(writer):
    writer.write(7, b"a")
    writer.write(8, b"b")
    writer.end(8, commit=True)
    assert last_stable_offset(writer) == 0
    writer.end(7, commit=True)
    assert last_stable_offset(writer) == 4
    assert values(writer.committed()) == [b"a", b"b"]


def test_t13_markers_at_the_end_do_not_stall_a_consumer(writer):
    for producer_id in (7, 8, 9):
        writer.write(producer_id, b"x")
    for producer_id in (7, 8, 9):
        writer.end(producer_id, commit=False)
    partition_response = writer.client.fetch(3, isolation_level=READ_COMMITTED)
    assert partition_response.records
    assert last_stable_offset(writer) == partition_response.high_watermark == 6
    assert writer.committed() == []


def test_t14_aborted_transactions_are_sorted_and_sent_to_read_committed_only(writer):
    for producer_id in (9, 7, 8):
        writer.write(producer_id, b"x")
    for producer_id in (8, 9, 7):
        writer.end(producer_id, commit=False)
    fetch_all = {"max_bytes": 1 << 20}
    partition_response = writer.client.fetch(0, isolation_level=READ_COMMITTED, **fetch_all)
    assert aborted(partition_response) == sorted(
        aborted(partition_response), key=lambda transaction: transaction[1]
    )
    assert aborted(partition_response)[0] == (9, 0)
    assert writer.client.fetch(0, **fetch_all).aborted_transactions is None


@pytest.fixture(params=["at once", "stopped", "killed"])
def later(request, broker, writer):
    """Returns the writer of the same partition, at once, after a clean stop or after a crash."""

    def reopen():
        if request.param == "at once":
            return writer
        writer.client.close()
        broker.kill() if request.param == "killed" else broker.stop()
        broker.start()
        writer.client.wire = PartitionClient(broker.address, "events").wire
        return writer

    yield reopen
    writer.client.close()


def test_read_committed_returns_exactly_the_committed_records_across_segments(writer, later):
    expected = []
    for number in range(12):
        committed, dropped = b"c%d" % number, b"d%d" % number
        writer.write(7, committed)
        writer.write(8, dropped)
        writer.write_plain(b"p%d" % number)
        writer.end(8, commit=False)
        writer.end(7, commit=True)
        expected += [committed, b"p%d" % number]
    open_offset = writer.write(9, b"open")
    writer.write_plain(b"after")
    writer = later()
    assert last_stable_offset(writer) == open_offset
    for max_bytes in (1, 100, 1000, 1 << 20):
        assert values(writer.committed(max_bytes=max_bytes)) == expected
    everything = values(writer.client.records())
    assert everything == [
        value
        for number in range(12)
        for value in (b"c%d" % number, b"d%d" % number, b"p%d" % number)
    ] + [b"open", b"after"]
    writer.end(9, commit=True)
    assert values(writer.committed()) == [*expected, b"open", b"after"]
    assert last_stable_offset(writer) == writer.client.offset_at(LATEST)


def test_long_aborted_transaction_is_returned_at_every_fetch_offset(writer, later):
    first = writer.write(7, b"d0")
    for number in range(1, 10):
        writer.write(7, b"d%d" % number)
        writer.write_plain(b"p%d" % number)
    writer.end(7, commit=False)
    writer = later()
    for offset in range(first, writer.client.offset_at(LATEST) - 1):
        partition_response = writer.client.fetch(offset, isolation_level=READ_COMMITTED)
        assert aborted(partition_response) == [(7, first)], offset
    assert values(writer.committed(max_bytes=1)) == [b"p%d" % number for number in range(1, 10)]


def test_describe_producers_shows_open_transactions(writer, later):
    writer.write_plain(b"0")
    writer.write(7, b"1", b"2")
    writer.write(8, b"3")
    writer.end(8, commit=True, epoch=4)
    writer = later()
    producers = {
        producer.producer_id: (
            producer.producer_epoch,
            producer.last_sequence,
            producer.current_txn_start_offset,
            producer.coordinator_epoch,
        )
        for producer in writer.client.producers()
    }
    assert producers == {7: (0, 1, 1, -1), 8: (4, -1, -1, 0)}


def test_timestamp_lookup_in_read_committed_ends_at_the_last_stable_offset(writer):
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
