"""The stream reader as Spark calls it, in one process: offsets, limits and data loss."""

import json
import pickle

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from odradek.protocol.records.record import Record
from odradek.protocol.types import TopicPartition
from odradek.spark_jobs.scan import segment_reader
from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.source.data_source import OdradekSource
from odradek.spark_jobs.source.stream_offsets import limit_end_offsets
from odradek.storage.offset_checkpoints import HIGH_WATERMARKS
from tests.support.batches import batch_of
from tests.support.laid_transactions import History
from tests.support.scans import LogDirectory, rows_of

ALL = ReadAllAvailable()


@pytest.fixture
def directory(tmp_path):
    return LogDirectory(tmp_path / "logs")


def batches(first, end):
    return [bytes(batch_of(b"v", base_offset=offset)) for offset in range(first, end)]


def stream(directory, **options):
    source = OdradekSource({"path": str(directory.path), "columns": "topic,offset", **options})
    return source.streamReader(source.schema())


def read(reader, start, end):
    """Return the offsets in the range, read by pickled copies as on workers."""
    offsets = []
    for task in reader.partitions(start, end):
        worker, received = pickle.loads(pickle.dumps((reader, task)))
        offsets += [row["offset"] for batch in worker.read(received) for row in rows_of(batch)]
    return offsets


def orders(offset):
    return {"orders": {"0": offset}}


class TestInitialOffset:
    def test_default_is_latest_as_in_sparks_kafka_source(self, directory):
        directory.write(0, batches(0, 5))
        directory.set_high_watermark(4)
        assert stream(directory).initialOffset() == orders(4)
        assert stream(directory, startingOffsets="latest").initialOffset() == orders(4)

    def test_without_a_high_watermark_it_is_the_end_of_the_log(self, directory):
        directory.write(0, [*batches(0, 5), b"torn"], indexed=False)
        assert stream(directory).initialOffset() == orders(5)

    def test_starting_options_are_obeyed(self, directory):
        directory.write(
            3, [bytes(batch_of(record, base_offset=offset)) for offset, record in timed(3, 9)]
        )
        assert stream(directory, startingOffsets="earliest").initialOffset() == orders(3)
        offsets = json.dumps(orders(7))
        assert stream(directory, startingOffsets=offsets).initialOffset() == orders(7)
        assert stream(directory, startingTimestamp="6000").initialOffset() == orders(6)

    def test_partitions_are_in_numeric_order(self, directory):
        for partition in (10, 9):
            (directory.path / f"orders-{partition}").mkdir()
        assert json.dumps(stream(directory).initialOffset()) == (
            '{"orders": {"0": 0, "9": 0, "10": 0}}'
        )


def timed(first, end):
    return [(offset, Record(offset, 1000 * offset, None, b"v", ())) for offset in range(first, end)]


class TestLatestOffset:
    def test_it_is_the_current_high_watermark(self, directory):
        directory.write(0, batches(0, 5))
        directory.set_high_watermark(2)
        reader = stream(directory, startingOffsets="earliest")
        assert reader.latestOffset(orders(0), ALL) == orders(2)
        directory.set_high_watermark(5)
        assert reader.latestOffset(orders(2), ALL) == orders(5)
        assert reader.reportLatestOffset() == orders(5)
        assert read(reader, orders(2), orders(5)) == [2, 3, 4]
        assert read(reader, orders(5), orders(5)) == []

    def test_limit_is_obeyed_and_nothing_is_read_twice(self, directory):
        directory.write(0, batches(0, 10), indexed=True)
        reader = stream(directory, startingOffsets="earliest", maxOffsetsPerTrigger="4")
        assert reader.getDefaultReadLimit() == ReadMaxRows(4)
        assert stream(directory).getDefaultReadLimit() == ALL
        start, read_offsets = reader.initialOffset(), []
        while (end := reader.latestOffset(start, ReadMaxRows(4))) != start:
            read_offsets.append(read(reader, start, end))
            start = end
        assert read_offsets == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]

    def test_available_now_ends_at_the_offsets_of_its_start(self, directory):
        directory.write(0, batches(0, 10))
        directory.set_high_watermark(6)
        reader = stream(directory)
        reader.prepareForTriggerAvailableNow()
        directory.set_high_watermark(10)
        (directory.path / "payments-0").mkdir()
        assert reader.latestOffset(orders(0), ReadMaxRows(4)) == orders(4)
        assert reader.latestOffset(orders(4), ReadMaxRows(4)) == orders(6)
        assert reader.latestOffset(orders(6), ReadMaxRows(4)) == orders(6)
        assert reader.latestOffset(orders(8), ALL) == orders(8)

    def test_new_partition_is_read_from_its_beginning(self, directory):
        directory.write(0, batches(0, 3))
        reader = stream(directory)
        start = reader.initialOffset()
        other = directory.path / "payments-0"
        other.mkdir()
        (other / directory.file(0).name).write_bytes(b"".join(batches(0, 2)))
        end = reader.latestOffset(start, ALL)
        assert end == {"orders": {"0": 3}, "payments": {"0": 2}}
        assert read(reader, start, end) == [0, 1]

    def test_log_directory_may_be_empty_at_first(self, directory):
        directory.partition.rmdir()
        HIGH_WATERMARKS.write(directory.path, {})
        reader = stream(directory)
        assert reader.initialOffset() == {}
        directory.partition.mkdir()
        directory.write(0, batches(0, 2))
        directory.set_high_watermark(2)
        assert read(reader, {}, reader.latestOffset({}, ALL)) == [0, 1]

    def test_missing_high_watermark_does_not_move_back(self, directory):
        directory.write(0, batches(0, 5))
        HIGH_WATERMARKS.write(directory.path, {})
        assert stream(directory).latestOffset(orders(4), ALL) == orders(4)


class TestTransactions:
    """Offsets 1 and 3 committed, 2 and 4 aborted, 8 open; 0 and 7 and 9 in no transaction."""

    def test_read_committed_ends_at_the_last_stable_offset(self, directory):
        directory.write(0, History.usual().batches)
        reader = stream(directory)
        assert reader.latestOffset(orders(0), ALL) == orders(8)
        assert read(reader, orders(0), orders(8)) == [0, 1, 3, 7]
        uncommitted = stream(directory, isolationLevel="read_uncommitted")
        assert uncommitted.latestOffset(orders(0), ALL) == orders(10)

    def test_transactions_are_tracked_across_polls(self, directory, monkeypatch):
        history = History.usual()
        directory.write(0, history.batches, indexed=True)
        reader = stream(directory)
        ends, read_offsets, start = [], [], orders(0)
        for high_watermark in range(11):
            directory.set_high_watermark(high_watermark)
            end = reader.latestOffset(start, ALL)
            read_offsets += read(reader, start, end)
            reader.commit(end)
            ends.append(end["orders"]["0"])
            start = end
        assert ends == [0, 1, 1, 1, 1, 1, 2, 7, 8, 8, 8]
        assert read_offsets == [0, 1, 3, 7]
        monkeypatch.setattr(segment_reader.SegmentReader, "__iter__", _must_not_read)
        assert reader.latestOffset(start, ALL) == start


def _must_not_read(self):
    raise AssertionError("there is nothing new to read")


class TestDataLoss:
    def test_records_deleted_by_retention_are_lost(self, directory):
        for first in (0, 5):
            directory.write(first, batches(first, first + 5))
        directory.file(0).unlink()
        with pytest.raises(ScanFailed, match="orders-0 starts at offset 5, but 2 is next: data w"):
            read(stream(directory), orders(2), orders(8))
        assert read(stream(directory, failOnDataLoss="false"), orders(2), orders(8)) == [5, 6, 7]

    def test_deleted_partition_is_lost(self, directory):
        directory.write(0, batches(0, 5))
        start = {"gone": {"0": 3}, "orders": {"0": 1}}
        with pytest.raises(
            ScanFailed, match="gone-0 no longer exists: data was lost; set failOnDataLoss=false to"
        ):
            stream(directory).latestOffset(start, ALL)
        lenient = stream(directory, failOnDataLoss="false")
        assert lenient.latestOffset(start, ALL) == orders(5)
        with pytest.raises(ScanFailed, match="gone-0 no longer exists"):
            stream(directory).partitions(start, {"gone": {"0": 9}})
        assert lenient.partitions(start, {"gone": {"0": 9}}) == []

    def test_recreated_topic_is_lost(self, directory):
        directory.write(0, batches(0, 5))
        with pytest.raises(
            ScanFailed, match="orders-0 ends at offset 5, before offset 9: data was lost"
        ):
            stream(directory).latestOffset(orders(9), ALL)
        lenient = stream(directory, failOnDataLoss="false")
        assert lenient.latestOffset(orders(9), ALL) == orders(5)
        assert read(lenient, orders(9), orders(5)) == [0, 1, 2, 3, 4]

    def test_log_that_ends_below_its_high_watermark_is_lost(self, directory):
        """The log was truncated; new records may be appended at offsets that were already read."""
        directory.write(0, batches(0, 5))
        directory.set_high_watermark(9)
        with pytest.raises(ScanFailed, match="orders-0 ends at offset 5, before its high waterm"):
            stream(directory).latestOffset(orders(9), ALL)
        with pytest.raises(
            ScanFailed, match="orders-0 ends at offset 5, before offset 9: data was lost"
        ):
            stream(directory).partitions(orders(3), orders(9))
        lenient = stream(directory, failOnDataLoss="false")
        assert lenient.latestOffset(orders(9), ALL) == orders(5)
        assert lenient.latestOffset(orders(3), ALL) == orders(5)
        assert read(lenient, orders(3), orders(9)) == [3, 4]
        directory.write(0, batches(0, 11))
        assert lenient.latestOffset(orders(5), ALL) == orders(9)
        directory.write(0, batches(0, 6))
        with pytest.raises(ScanFailed, match="ends at offset 6, before its high watermark 9"):
            stream(directory).latestOffset(orders(6), ALL)
        assert lenient.latestOffset(orders(9), ALL) == orders(6)

    def test_topic_deleted_while_the_stream_runs_is_lost(self, directory):
        """A topic that is missing at the start is an invalid option; later it is data loss."""
        directory.write(0, batches(0, 5))
        with pytest.raises(ScanFailed, match="oders: not in"):
            stream(directory, topics="orders,oders").initialOffset()
        reader = stream(directory, topics="orders")
        lenient = stream(directory, topics="orders", failOnDataLoss="false")
        assert reader.initialOffset() == lenient.initialOffset() == orders(5)
        directory.partition.rename(directory.path / "other-0")
        with pytest.raises(ScanFailed, match="orders-0 no longer exists: data was lost"):
            reader.latestOffset(orders(5), ALL)
        assert lenient.latestOffset(orders(5), ALL) == {}

    def test_log_that_ends_below_the_end_of_a_batch_is_lost(self, directory):
        directory.write(0, batches(0, 5))
        with pytest.raises(ScanFailed, match="orders-0 ends at offset 5, before offset 9"):
            stream(directory).partitions(orders(3), orders(9))
        assert read(stream(directory, failOnDataLoss="false"), orders(3), orders(9)) == [3, 4]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"endingTimestamp": "7"}, "endingOffsets and endingTimestamp: not supported for streams"),
        (
            {"endingOffsets": '{"orders": {"0": 7}}'},
            "endingOffsets and endingTimestamp: not supported for st",
        ),
        ({"view": "damage", "columns": "reason"}, "view=damage: not supported for streams"),
        (
            {"view": "batches", "columns": "count", "maxOffsetsPerTrigger": "7"},
            "maxOffsetsPerTrigger: not supported with view=batches, it could split a batch",
        ),
    ],
)
def test_invalid_stream_options_are_reported_in_one_line(directory, options, line):
    with pytest.raises(ScanFailed, match=line):
        stream(directory, **options)


def test_limit_is_divided_in_proportion_to_the_available_records():
    starts = {("a", 0): 0, ("b", 0): 10, ("c", 0): 5, ("d", 0): 0}
    ends = {("a", 0): 90, ("b", 0): 20, ("c", 0): 5, ("d", 0): 1}
    assert limit_end_offsets(starts, ends, 1000) == ends
    assert limit_end_offsets(starts, ends, 20) == {
        ("a", 0): 17,
        ("b", 0): 11,
        ("c", 0): 5,
        ("d", 0): 1,
    }


def test_each_partition_has_its_own_high_watermark(directory):
    """Log directories may differ; each partition has its own end offset."""
    directory.write(0, batches(0, 5))
    (directory.path / "orders-1").mkdir()
    HIGH_WATERMARKS.write(
        directory.path, {TopicPartition("orders", 0): 3, TopicPartition("orders", 1): 0}
    )
    end = stream(directory).latestOffset({"orders": {"0": 1, "1": 0}}, ALL)
    assert end == {"orders": {"0": 3, "1": 0}}
