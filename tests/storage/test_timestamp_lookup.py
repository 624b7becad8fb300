"""Looking up offsets by timestamp."""

import os

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.protocol.records.record import TimestampType
from odradek.storage.log_truncation import truncate_to
from odradek.storage.paths import LogFileType
from odradek.storage.timestamp_lookup import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    TimestampAndOffset,
    TimestampQuery,
    earliest_offset,
    find_in_batch,
    latest_offset,
    legacy_offsets_before,
    offset_for_timestamp,
    offset_of_max_timestamp,
)
from tests.support.batches import with_checksum
from tests.support.damage import flip, flip_in_batch
from tests.support.legacy_messages import message, wrapper
from tests.support.logs import NOW_MS, append, end_transaction, opened

CODECS = [Codec.NONE, Codec.GZIP, Codec.ZSTD]


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "events-0"


@pytest.fixture
def log(directory):
    return opened(directory, index_interval_bytes=0)


def batch(*timestamps, **fields):
    builder = BatchBuilder(BatchFields(**fields))
    for timestamp in timestamps:
        builder.append(timestamp=timestamp, key=None, value=b"a")
    return builder.build()


def batch_with_false_max_timestamp(timestamp, *, largest, **fields):
    """A batch whose header has a larger max timestamp than its record."""
    records = batch(timestamp, **fields)
    records[35:43] = largest.to_bytes(8)
    return bytearray(with_checksum(records))


def append_times(log, *timestamps, **fields):
    """Append one batch of records with these timestamps."""
    log.append_as_leader(batch(*timestamps, **fields), leader_epoch=0, now_ms=NOW_MS)
    log.update_high_watermark(log.log_end_offset)


def offset_at(log, timestamp):
    results = offset_for_timestamp(log, timestamp)
    return None if results is None else results.offset


class TestEarliestAndLatest:
    def test_earliest_is_the_log_start_offset_with_its_epoch(self, log):
        for epoch in (3, 5):
            append(log, b"a", leader_epoch=epoch)
            append(log, b"a", leader_epoch=epoch)
        assert earliest_offset(log) == TimestampAndOffset(0, leader_epoch=3)
        log.maybe_increment_log_start_offset(1)
        assert earliest_offset(log) == TimestampAndOffset(1, leader_epoch=3)
        log.maybe_increment_log_start_offset(2)
        assert earliest_offset(log) == TimestampAndOffset(2, leader_epoch=5)

    def test_earliest_has_no_epoch_at_a_legacy_message(self, log):
        log.append_as_follower(bytearray(message(1, b"a", offset=0)), now_ms=NOW_MS)
        append(log, b"b", leader_epoch=5)
        assert earliest_offset(log) == TimestampAndOffset(0, leader_epoch=-1)

    def test_latest_is_the_log_end_offset_with_the_latest_epoch(self, log):
        assert latest_offset(log) == TimestampAndOffset(0, leader_epoch=-1)
        append(log, b"a", leader_epoch=3)
        assert latest_offset(log) == TimestampAndOffset(1, leader_epoch=3)


class TestOffsetForTimestamp:
    def test_s7_timestamps_below_at_between_and_above_those_of_the_records(self, log):
        for timestamp in (10, 20, 30):
            append_times(log, timestamp)
        queries = (-1, 0, 9, 10, 11, 20, 21, 30, 31)
        assert [offset_at(log, timestamp) for timestamp in queries] == [
            *(0, 0, 0, 0, 1, 1, 2, 2),
            None,
        ]

    def test_result_has_the_timestamp_and_leader_epoch_of_the_record(self, log):
        append(log, b"a", b"b", timestamp=10, leader_epoch=3)
        assert offset_for_timestamp(log, 5) == TimestampAndOffset(0, 10, 3)

    def test_empty_log_has_no_result(self, log):
        assert offset_for_timestamp(log, 0) is None

    def test_first_offset_of_equal_timestamps_is_returned(self, log):
        for _ in range(3):
            append_times(log, 10, 10)
        assert offset_at(log, 10) == 0

    @pytest.mark.parametrize("codec", CODECS)
    def test_s7_record_inside_a_batch_is_found(self, log, codec):
        append_times(log, 10, 40, 20, 30, codec=codec)
        queries = (10, 11, 20, 40, 41)
        assert [offset_at(log, timestamp) for timestamp in queries] == [0, 1, 1, 1, None]

    def test_s7_timestamps_need_not_ascend(self, log):
        timestamps = [50, 10, 70, 30, 70, 20, 90, 60]
        for timestamp in timestamps:
            append_times(log, timestamp)
            if timestamp == 30:
                log.roll(now_ms=NOW_MS)
        for query in range(0, 100, 5):
            expected = [
                offset
                for offset, record_timestamp in enumerate(timestamps)
                if record_timestamp >= query
            ]
            assert offset_at(log, query) == (expected[0] if expected else None)

    def test_first_matching_segment_gives_the_result(self, directory):
        log = opened(directory, index_interval_bytes=0)
        for timestamp in (10, 90, 20, 30):
            append_times(log, timestamp)
            log.roll(now_ms=NOW_MS)
        assert [offset_at(log, timestamp) for timestamp in (10, 15, 25, 91)] == [0, 1, 1, None]

    @pytest.mark.parametrize("start", range(9))
    def test_s7_records_before_the_log_start_are_not_returned(self, log, start):
        timestamps = [10, 50, 20, 40, 40, 10, 60, 30, 20]
        for first in range(0, 9, 3):
            append_times(log, *timestamps[first : first + 3])
        log.maybe_increment_log_start_offset(start)
        for query in range(5, 70, 5):
            expected = [
                n
                for n, record_timestamp in enumerate(timestamps)
                if record_timestamp >= query and n >= start
            ]
            assert offset_at(log, query) == (expected[0] if expected else None)

    def test_log_append_time_is_used_where_configured(self, directory):
        log = opened(directory, message_timestamp_type="LogAppendTime")
        for now_ms in (100, 200):
            log.append_as_leader(batch(1, 2, 3), leader_epoch=0, now_ms=now_ms)
        assert offset_for_timestamp(log, 50) == TimestampAndOffset(0, 100, 0)
        assert offset_for_timestamp(log, 101) == TimestampAndOffset(3, 200, 0)

    def test_offsets_removed_by_compaction_are_skipped(self, log):
        for base_offset, timestamp in ((0, 10), (50, 20), (90, 30)):
            records = batch(timestamp, base_offset=base_offset)
            log.append_as_follower(records, now_ms=NOW_MS)
        assert [offset_at(log, timestamp) for timestamp in (5, 15, 25)] == [0, 50, 90]

    def test_records_without_timestamps_are_skipped(self, log):
        content = message(0, b"a", offset=0) + message(1, b"b", offset=1, timestamp=30)
        log.append_as_follower(bytearray(content), now_ms=NOW_MS)
        log.roll(now_ms=NOW_MS)
        log.append_as_follower(bytearray(message(0, b"c", offset=2)), now_ms=NOW_MS)
        assert offset_for_timestamp(log, 0) == TimestampAndOffset(1, 30, -1)
        assert offset_at(log, 31) is None

    def test_record_in_a_legacy_wrapper_is_found(self, log):
        inner = message(1, b"a", offset=0, timestamp=10) + message(1, b"b", offset=1, timestamp=30)
        packed = bytearray(wrapper(1, inner, offset=8))
        LegacyBatch(packed).set_max_timestamp(30, TimestampType.CREATE_TIME)
        log.append_as_follower(packed, now_ms=NOW_MS)
        assert [offset_at(log, timestamp) for timestamp in (5, 20, 31)] == [7, 8, None]

    def test_transaction_marker_can_be_the_result(self, log):
        append(
            log,
            b"x",
            timestamp=10,
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        end_transaction(log, producer_id=7, commit=True)
        assert offset_for_timestamp(log, 11) == TimestampAndOffset(1, NOW_MS, 0)

    def test_too_large_max_timestamp_in_a_header_is_tolerated(self, log):
        log.append_as_follower(batch_with_false_max_timestamp(10, largest=99), now_ms=NOW_MS)
        append_times(log, 50)
        assert [offset_at(log, timestamp) for timestamp in (5, 11, 51)] == [0, 1, None]

    def test_truncated_records_are_not_found(self, log):
        for timestamp in (10, 90, 20):
            append_times(log, timestamp)
        truncate_to(log, 1, now_ms=NOW_MS)
        append_times(log, 50)
        assert [offset_at(log, timestamp) for timestamp in (15, 60)] == [1, None]


class TestMaxTimestamp:
    def test_first_record_with_the_max_timestamp_is_returned(self, log):
        for timestamps in ((10, 30, 30), (30,), (20,)):
            append_times(log, *timestamps)
        assert offset_of_max_timestamp(log) == TimestampAndOffset(1, 30, 0)

    @pytest.mark.parametrize("codec", CODECS)
    def test_max_timestamp_inside_a_batch_is_found(self, log, codec):
        append_times(log, 10, codec=codec)
        append_times(log, 20, 50, 30, codec=codec)
        assert offset_of_max_timestamp(log) == TimestampAndOffset(2, 50, 0)

    @pytest.mark.parametrize("codec", CODECS)
    def test_first_offset_of_equal_log_append_times_is_returned(self, directory, codec):
        log = opened(directory, message_timestamp_type="LogAppendTime")
        for now_ms in (100, 200):
            records = batch(7, 8, 9, codec=codec)
            log.append_as_leader(records, leader_epoch=0, now_ms=now_ms)
        assert offset_of_max_timestamp(log) == TimestampAndOffset(3, 200, 0)

    def test_max_timestamp_in_any_segment_is_found(self, log):
        for timestamp in (10, 90, 20):
            append_times(log, timestamp)
            log.roll(now_ms=NOW_MS)
        assert offset_of_max_timestamp(log) == TimestampAndOffset(1, 90, 0)

    def test_empty_log_has_no_result(self, log):
        assert offset_of_max_timestamp(log) is None
        append_times(log, 10)
        log.maybe_increment_log_start_offset(1)
        assert offset_of_max_timestamp(log) is None

    def test_records_without_timestamps_have_no_max_timestamp(self, log):
        log.append_as_follower(bytearray(message(0, b"a")), now_ms=NOW_MS)
        assert offset_of_max_timestamp(log) is None

    @pytest.mark.parametrize("start", range(8))
    def test_s7_max_timestamp_ignores_records_before_the_log_start(self, log, start):
        timestamps = [90, 10, 80, 20, 70, 60, 30, 60]
        append_times(log, *timestamps[:3])
        append_times(log, *timestamps[3:5])
        log.roll(now_ms=NOW_MS)
        append_times(log, *timestamps[5:])
        log.maybe_increment_log_start_offset(start)
        largest = max(timestamps[start:])
        assert offset_of_max_timestamp(log) == TimestampAndOffset(
            timestamps.index(largest, start), largest, 0
        )

    def test_too_large_max_timestamp_in_a_header_is_tolerated(self, log):
        for timestamp, largest in ((10, 99), (30, 70), (20, 80)):
            records = batch_with_false_max_timestamp(
                timestamp, largest=largest, base_offset=log.log_end_offset
            )
            log.append_as_follower(records, now_ms=NOW_MS)
            log.roll(now_ms=NOW_MS)
        assert offset_of_max_timestamp(log) == TimestampAndOffset(1, 30, -1)

    def test_first_of_several_segments_with_the_max_timestamp_is_returned(self, log):
        log.append_as_follower(batch_with_false_max_timestamp(30, largest=40), now_ms=NOW_MS)
        log.roll(now_ms=NOW_MS)
        for timestamps in ((10, 50), (50, 20)):
            append_times(log, *timestamps)
            log.roll(now_ms=NOW_MS)
        log.append_as_follower(
            batch_with_false_max_timestamp(50, largest=60, base_offset=5), now_ms=NOW_MS
        )
        assert offset_of_max_timestamp(log) == TimestampAndOffset(2, 50, 0)


class TestBatchInspection:
    def test_only_candidate_batches_are_inspected_for_the_max_timestamp(self, log):
        append_times(log, 9000)
        for timestamp in range(1000, 1100):
            append_times(log, timestamp, 5)
        append_times(log, 5, 1099)
        log.maybe_increment_log_start_offset(1)
        inspected = []

        def inspect(batch, query):
            inspected.append(batch.base_offset)
            return find_in_batch(batch, query)

        assert offset_of_max_timestamp(log, inspect) == TimestampAndOffset(199, 1099, 0)
        assert set(inspected) == {199, 201}

    def test_find_in_batch_honours_the_start_offset(self):
        inspected_batch = RecordBatch(batch(10, 30, 20, 30))
        assert find_in_batch(
            inspected_batch, TimestampQuery(20, start_offset=0)
        ) == TimestampAndOffset(1, 30)
        assert find_in_batch(
            inspected_batch, TimestampQuery(20, start_offset=2)
        ) == TimestampAndOffset(2, 20)
        assert find_in_batch(inspected_batch, TimestampQuery(31, start_offset=0)) is None
        assert find_in_batch(
            inspected_batch, TimestampQuery(None, start_offset=0)
        ) == TimestampAndOffset(1, 30)
        assert find_in_batch(
            inspected_batch, TimestampQuery(None, start_offset=2)
        ) == TimestampAndOffset(3, 30)
        assert find_in_batch(RecordBatch(batch(-1)), TimestampQuery(None, start_offset=0)) is None


class TestDamage:
    @pytest.fixture
    def closed(self, directory):
        log = opened(directory, index_interval_bytes=0)
        for timestamp in range(100, 220, 10):
            append_times(log, timestamp)
        log.close(now_ms=NOW_MS)
        return log

    @pytest.mark.parametrize("content", [LogFileType.OFFSET_INDEX, LogFileType.TIME_INDEX])
    @pytest.mark.parametrize("mask", [0x01, 0x80])
    def test_s4_flipped_bit_anywhere_in_an_index_does_not_change_results(
        self, closed, directory, content, mask
    ):
        path = closed.segments.active.path(content)
        intact = path.read_bytes()
        for position in range(len(intact)):
            flip(path, position, mask=mask)
            log = opened(directory, recovery_point=12)
            results = [offset_at(log, timestamp) for timestamp in (0, 115, 145, 205, 210, 211)]
            assert results == [0, 2, 5, 11, 11, None]
            assert offset_of_max_timestamp(log) == TimestampAndOffset(11, 210, 0)
            log.close_handlers()
            path.write_bytes(intact)

    @pytest.mark.parametrize("position", [8, 30, 40, 62])
    def test_s3_damaged_batch_raises_and_is_never_skipped(self, closed, directory, position):
        flip_in_batch(closed.segments.active, 5, position, mask=0x02)
        log = opened(directory, recovery_point=12)
        assert offset_at(log, 110) == 1
        with pytest.raises(CorruptMessage):
            offset_for_timestamp(log, 145)


class TestLegacyOffsetsBefore:
    @pytest.fixture
    def written_at(self, log):
        """Fill a log with segments of two records each, last modified at the given times."""

        def written_at(*times):
            for number, time_ms in enumerate(times):
                if number:
                    log.roll(now_ms=NOW_MS)
                append(log, b"a", b"b")
                path = log.segments.active.path(LogFileType.LOG)
                os.utime(path, ns=(time_ms * 1_000_000,) * 2)
            return log

        return written_at

    def before(self, log, timestamp, *, max_offsets=10):
        return legacy_offsets_before(log, timestamp, max_offsets=max_offsets, now_ms=100)

    def test_latest_returns_the_end_and_all_base_offsets_newest_first(self, written_at):
        assert self.before(written_at(10, 20, 30), LATEST_TIMESTAMP) == [6, 4, 2, 0]

    def test_earliest_returns_only_the_first_offset(self, written_at):
        assert self.before(written_at(10, 20, 30), EARLIEST_TIMESTAMP) == [0]

    @pytest.mark.parametrize(
        ("timestamp", "offsets"),
        [(9, []), (10, [0]), (29, [2, 0]), (30, [4, 2, 0]), (99, [4, 2, 0]), (100, [6, 4, 2, 0])],
    )
    def test_timestamp_returns_segments_modified_no_later(self, written_at, timestamp, offsets):
        assert self.before(written_at(10, 20, 30), timestamp) == offsets

    def test_late_modified_segment_does_not_hide_later_segments(self, written_at):
        assert self.before(written_at(90, 20, 30), 40) == [4, 2, 0]

    @pytest.mark.parametrize(("max_offsets", "offsets"), [(1, [6]), (2, [6, 4]), (0, []), (-1, [])])
    def test_at_most_max_offsets_are_returned(self, written_at, max_offsets, offsets):
        assert (
            self.before(written_at(10, 20, 30), LATEST_TIMESTAMP, max_offsets=max_offsets)
            == offsets
        )

    def test_empty_active_segment_is_returned_once(self, written_at):
        log = written_at(10, 20)
        log.roll(now_ms=NOW_MS)
        assert self.before(log, LATEST_TIMESTAMP) == [4, 2, 0]

    def test_empty_log_returns_its_start(self, log):
        assert self.before(log, LATEST_TIMESTAMP) == [0]

    def test_offsets_before_the_log_start_are_raised_to_it(self, written_at):
        log = written_at(10, 20)
        log.maybe_increment_log_start_offset(1)
        assert self.before(log, LATEST_TIMESTAMP) == [4, 2, 1]
        assert self.before(log, EARLIEST_TIMESTAMP) == [1]
