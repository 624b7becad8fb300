"""Which offset belongs to a timestamp."""

import os

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.legacy import LegacyBatch
from odradek.protocol.records.record import TimestampType
from odradek.storage.log_lookup import (
    EARLIEST,
    LATEST,
    FoundOffset,
    Sought,
    earliest,
    first_at_or_after,
    found_in,
    latest,
    of_largest_timestamp,
    offsets_before,
)
from odradek.storage.log_truncation import truncate
from odradek.storage.paths import Content
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


def lying(timestamp, *, largest, **fields):
    """A batch whose header promises a larger timestamp than its record has."""
    records = batch(timestamp, **fields)
    records[35:43] = largest.to_bytes(8)
    return bytearray(with_checksum(records))


def append_times(log, *timestamps, **fields):
    """One batch of records with these timestamps."""
    log.append_as_leader(batch(*timestamps, **fields), leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.end_offset)


def offset_at(log, timestamp):
    found = first_at_or_after(log, timestamp)
    return None if found is None else found.offset


class TestTheEnds:
    def test_the_earliest_is_the_start_and_its_epoch(self, log):
        for epoch in (3, 5):
            append(log, b"a", leader_epoch=epoch)
            append(log, b"a", leader_epoch=epoch)
        assert earliest(log) == FoundOffset(0, leader_epoch=3)
        log.advance_start(1)
        assert earliest(log) == FoundOffset(1, leader_epoch=3)
        log.advance_start(2)
        assert earliest(log) == FoundOffset(2, leader_epoch=5)

    def test_no_epoch_is_known_where_an_old_format_begins(self, log):
        log.append_as_follower(bytearray(message(1, b"a", offset=0)), now_ms=NOW_MS)
        append(log, b"b", leader_epoch=5)
        assert earliest(log) == FoundOffset(0, leader_epoch=-1)

    def test_the_latest_is_the_end_and_the_newest_epoch(self, log):
        assert latest(log) == FoundOffset(0, leader_epoch=-1)
        append(log, b"a", leader_epoch=3)
        assert latest(log) == FoundOffset(1, leader_epoch=3)


class TestTheFirstAtOrAfter:
    def test_s7_below_at_between_and_above(self, log):
        for timestamp in (10, 20, 30):
            append_times(log, timestamp)
        asked = (-1, 0, 9, 10, 11, 20, 21, 30, 31)
        assert [offset_at(log, timestamp) for timestamp in asked] == [
            *(0, 0, 0, 0, 1, 1, 2, 2),
            None,
        ]

    def test_the_answer_has_the_records_own_timestamp_and_its_leaders_epoch(self, log):
        append(log, b"a", b"b", timestamp=10, leader_epoch=3)
        assert first_at_or_after(log, 5) == FoundOffset(0, 10, 3)

    def test_an_empty_log_has_none(self, log):
        assert first_at_or_after(log, 0) is None

    def test_of_equal_timestamps_the_first_offset_counts(self, log):
        for _ in range(3):
            append_times(log, 10, 10)
        assert offset_at(log, 10) == 0

    @pytest.mark.parametrize("codec", CODECS)
    def test_s7_inside_a_batch_the_record_is_found(self, log, codec):
        append_times(log, 10, 40, 20, 30, codec=codec)
        asked = (10, 11, 20, 40, 41)
        assert [offset_at(log, timestamp) for timestamp in asked] == [0, 1, 1, 1, None]

    def test_s7_timestamps_need_not_ascend(self, log):
        timestamps = [50, 10, 70, 30, 70, 20, 90, 60]
        for timestamp in timestamps:
            append_times(log, timestamp)
            if timestamp == 30:
                log.roll(now_ms=NOW_MS)
        for asked in range(0, 100, 5):
            expected = [offset for offset, each in enumerate(timestamps) if each >= asked]
            assert offset_at(log, asked) == (expected[0] if expected else None)

    def test_the_first_segment_that_has_one_answers(self, directory):
        log = opened(directory, index_interval_bytes=0)
        for timestamp in (10, 90, 20, 30):
            append_times(log, timestamp)
            log.roll(now_ms=NOW_MS)
        assert [offset_at(log, timestamp) for timestamp in (10, 15, 25, 91)] == [0, 1, 1, None]

    @pytest.mark.parametrize("start", range(9))
    def test_s7_nothing_before_the_start_is_an_answer(self, log, start):
        timestamps = [10, 50, 20, 40, 40, 10, 60, 30, 20]
        for first in range(0, 9, 3):
            append_times(log, *timestamps[first : first + 3])
        log.advance_start(start)
        for asked in range(5, 70, 5):
            expected = [n for n, each in enumerate(timestamps) if each >= asked and n >= start]
            assert offset_at(log, asked) == (expected[0] if expected else None)

    def test_it_is_the_time_of_append_where_that_counts(self, directory):
        log = opened(directory, message_timestamp_type="LogAppendTime")
        for now_ms in (100, 200):
            log.append_as_leader(batch(1, 2, 3), leader_epoch=0, now_ms=now_ms)
        assert first_at_or_after(log, 50) == FoundOffset(0, 100, 0)
        assert first_at_or_after(log, 101) == FoundOffset(3, 200, 0)

    def test_records_that_compaction_took_are_passed_over(self, log):
        for base_offset, timestamp in ((0, 10), (50, 20), (90, 30)):
            records = batch(timestamp, base_offset=base_offset)
            log.append_as_follower(records, now_ms=NOW_MS)
        assert [offset_at(log, timestamp) for timestamp in (5, 15, 25)] == [0, 50, 90]

    def test_records_without_timestamps_are_passed_over(self, log):
        content = message(0, b"a", offset=0) + message(1, b"b", offset=1, timestamp=30)
        log.append_as_follower(bytearray(content), now_ms=NOW_MS)
        log.roll(now_ms=NOW_MS)
        log.append_as_follower(bytearray(message(0, b"c", offset=2)), now_ms=NOW_MS)
        assert first_at_or_after(log, 0) == FoundOffset(1, 30, -1)
        assert offset_at(log, 31) is None

    def test_a_record_in_an_old_wrapper_is_found(self, log):
        inner = message(1, b"a", offset=0, timestamp=10) + message(1, b"b", offset=1, timestamp=30)
        packed = bytearray(wrapper(1, inner, offset=8))
        LegacyBatch(packed).set_max_timestamp(30, TimestampType.CREATE_TIME)
        log.append_as_follower(packed, now_ms=NOW_MS)
        assert [offset_at(log, timestamp) for timestamp in (5, 20, 31)] == [7, 8, None]

    def test_the_marker_of_a_transaction_is_a_record_too(self, log):
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
        assert first_at_or_after(log, 11) == FoundOffset(1, NOW_MS, 0)

    def test_a_header_that_promises_too_much_misleads_nobody(self, log):
        log.append_as_follower(lying(10, largest=99), now_ms=NOW_MS)
        append_times(log, 50)
        assert [offset_at(log, timestamp) for timestamp in (5, 11, 51)] == [0, 1, None]

    def test_what_was_truncated_is_not_found(self, log):
        for timestamp in (10, 90, 20):
            append_times(log, timestamp)
        truncate(log, 1, now_ms=NOW_MS)
        append_times(log, 50)
        assert [offset_at(log, timestamp) for timestamp in (15, 60)] == [1, None]


class TestTheLargest:
    def test_it_is_the_first_record_that_has_it(self, log):
        for timestamps in ((10, 30, 30), (30,), (20,)):
            append_times(log, *timestamps)
        assert of_largest_timestamp(log) == FoundOffset(1, 30, 0)

    @pytest.mark.parametrize("codec", CODECS)
    def test_it_may_lie_inside_a_batch(self, log, codec):
        append_times(log, 10, codec=codec)
        append_times(log, 20, 50, 30, codec=codec)
        assert of_largest_timestamp(log) == FoundOffset(2, 50, 0)

    @pytest.mark.parametrize("codec", CODECS)
    def test_of_equal_times_of_append_it_is_the_first(self, directory, codec):
        log = opened(directory, message_timestamp_type="LogAppendTime")
        for now_ms in (100, 200):
            records = batch(7, 8, 9, codec=codec)
            log.append_as_leader(records, leader_epoch=0, now_ms=now_ms)
        assert of_largest_timestamp(log) == FoundOffset(3, 200, 0)

    def test_it_may_be_in_any_segment(self, log):
        for timestamp in (10, 90, 20):
            append_times(log, timestamp)
            log.roll(now_ms=NOW_MS)
        assert of_largest_timestamp(log) == FoundOffset(1, 90, 0)

    def test_an_empty_log_has_none(self, log):
        assert of_largest_timestamp(log) is None
        append_times(log, 10)
        log.advance_start(1)
        assert of_largest_timestamp(log) is None

    def test_records_without_timestamps_have_none(self, log):
        log.append_as_follower(bytearray(message(0, b"a")), now_ms=NOW_MS)
        assert of_largest_timestamp(log) is None

    @pytest.mark.parametrize("start", range(8))
    def test_s7_it_never_lies_before_the_start(self, log, start):
        timestamps = [90, 10, 80, 20, 70, 60, 30, 60]
        append_times(log, *timestamps[:3])
        append_times(log, *timestamps[3:5])
        log.roll(now_ms=NOW_MS)
        append_times(log, *timestamps[5:])
        log.advance_start(start)
        largest = max(timestamps[start:])
        assert of_largest_timestamp(log) == FoundOffset(
            timestamps.index(largest, start), largest, 0
        )

    def test_a_header_that_promises_too_much_misleads_nobody(self, log):
        for timestamp, largest in ((10, 99), (30, 70), (20, 80)):
            records = lying(timestamp, largest=largest, base_offset=log.end_offset)
            log.append_as_follower(records, now_ms=NOW_MS)
            log.roll(now_ms=NOW_MS)
        assert of_largest_timestamp(log) == FoundOffset(1, 30, -1)

    def test_of_segments_that_have_the_same_it_is_the_first(self, log):
        log.append_as_follower(lying(30, largest=40), now_ms=NOW_MS)
        log.roll(now_ms=NOW_MS)
        for timestamps in ((10, 50), (50, 20)):
            append_times(log, *timestamps)
            log.roll(now_ms=NOW_MS)
        log.append_as_follower(lying(50, largest=60, base_offset=5), now_ms=NOW_MS)
        assert of_largest_timestamp(log) == FoundOffset(2, 50, 0)


class TestLooking:
    def test_few_batches_are_looked_into_for_the_largest_that_is_left(self, log):
        append_times(log, 9000)
        for timestamp in range(1000, 1100):
            append_times(log, timestamp, 5)
        append_times(log, 5, 1099)
        log.advance_start(1)
        looked = []

        def look(batch, sought):
            looked.append(batch.base_offset)
            return found_in(batch, sought)

        assert of_largest_timestamp(log, look) == FoundOffset(199, 1099, 0)
        assert set(looked) == {199, 201}

    def test_a_batch_may_be_asked_for_either_from_a_start_on(self):
        seen = RecordBatch(batch(10, 30, 20, 30))
        assert found_in(seen, Sought(20, start=0)) == FoundOffset(1, 30)
        assert found_in(seen, Sought(20, start=2)) == FoundOffset(2, 20)
        assert found_in(seen, Sought(31, start=0)) is None
        assert found_in(seen, Sought(None, start=0)) == FoundOffset(1, 30)
        assert found_in(seen, Sought(None, start=2)) == FoundOffset(3, 30)
        assert found_in(RecordBatch(batch(-1)), Sought(None, start=0)) is None


class TestDamage:
    @pytest.fixture
    def closed(self, directory):
        log = opened(directory, index_interval_bytes=0)
        for timestamp in range(100, 220, 10):
            append_times(log, timestamp)
        log.close(now_ms=NOW_MS)
        return log

    @pytest.mark.parametrize("content", [Content.OFFSET_INDEX, Content.TIME_INDEX])
    @pytest.mark.parametrize("mask", [0x01, 0x80])
    def test_s4_a_flipped_bit_anywhere_in_an_index_changes_no_answer(
        self, closed, directory, content, mask
    ):
        path = closed.segments.active.path(content)
        sound = path.read_bytes()
        for position in range(len(sound)):
            flip(path, position, mask=mask)
            log = opened(directory, recovery_point=12)
            found = [offset_at(log, timestamp) for timestamp in (0, 115, 145, 205, 210, 211)]
            assert found == [0, 2, 5, 11, 11, None]
            assert of_largest_timestamp(log) == FoundOffset(11, 210, 0)
            log.abandon()
            path.write_bytes(sound)

    @pytest.mark.parametrize("position", [8, 30, 40, 62])
    def test_s3_a_damaged_batch_is_an_error_and_never_passed_over(
        self, closed, directory, position
    ):
        flip_in_batch(closed.segments.active, 5, position, mask=0x02)
        log = opened(directory, recovery_point=12)
        assert offset_at(log, 110) == 1
        with pytest.raises(CorruptMessage):
            first_at_or_after(log, 145)


class TestOffsetsBefore:
    @pytest.fixture
    def written_at(self, log):
        """A log whose segments, of two records each, were last written at these times."""

        def written_at(*times):
            for number, time_ms in enumerate(times):
                if number:
                    log.roll(now_ms=NOW_MS)
                append(log, b"a", b"b")
                path = log.segments.active.path(Content.BATCHES)
                os.utime(path, ns=(time_ms * 1_000_000,) * 2)
            return log

        return written_at

    def before(self, log, timestamp, *, max_offsets=10):
        return offsets_before(log, timestamp, max_offsets=max_offsets, now_ms=100)

    def test_latest_is_the_end_and_every_beginning_newest_first(self, written_at):
        assert self.before(written_at(10, 20, 30), LATEST) == [6, 4, 2, 0]

    def test_earliest_is_the_first_alone(self, written_at):
        assert self.before(written_at(10, 20, 30), EARLIEST) == [0]

    @pytest.mark.parametrize(
        ("timestamp", "offsets"),
        [(9, []), (10, [0]), (29, [2, 0]), (30, [4, 2, 0]), (99, [4, 2, 0]), (100, [6, 4, 2, 0])],
    )
    def test_a_time_names_what_was_written_no_later(self, written_at, timestamp, offsets):
        assert self.before(written_at(10, 20, 30), timestamp) == offsets

    def test_a_segment_written_again_late_does_not_hide_those_that_follow(self, written_at):
        assert self.before(written_at(90, 20, 30), 40) == [4, 2, 0]

    @pytest.mark.parametrize(("most", "offsets"), [(1, [6]), (2, [6, 4]), (0, []), (-1, [])])
    def test_no_more_are_told_than_asked_for(self, written_at, most, offsets):
        assert self.before(written_at(10, 20, 30), LATEST, max_offsets=most) == offsets

    def test_an_empty_segment_at_the_end_is_told_once(self, written_at):
        log = written_at(10, 20)
        log.roll(now_ms=NOW_MS)
        assert self.before(log, LATEST) == [4, 2, 0]

    def test_an_empty_log_has_its_start(self, log):
        assert self.before(log, LATEST) == [0]

    def test_no_offset_lies_before_the_start(self, written_at):
        log = written_at(10, 20)
        log.advance_start(1)
        assert self.before(log, LATEST) == [4, 2, 1]
        assert self.before(log, EARLIEST) == [1]
