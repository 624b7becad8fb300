"""Which segments are too old, too many, or before the start of the log."""

import os

import pytest

from odradek.protocol.errors import OffsetOutOfRange
from odradek.storage.deletion import remove
from odradek.storage.log_lookup import first_at_or_after
from odradek.storage.paths import Content
from odradek.storage.retention import Reason, apply_retention
from tests.support.legacy_messages import message
from tests.support.logs import (
    NOW_MS,
    append,
    bytes_of,
    end_transaction,
    opened,
    outlived_segments,
    records_batch,
    records_from,
    recovered,
)

DAY_MS = 24 * 3_600_000
BATCH_BYTES = len(records_batch(b"a"))


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "events-0"


@pytest.fixture
def log_of(directory):
    """A log with a segment for each of these timestamps, the last one active."""

    def log_of(*timestamps, **settings):
        log = opened(directory, **{"retention_ms": -1, **settings})
        for number, timestamp in enumerate(timestamps):
            if number:
                log.roll(now_ms=NOW_MS)
            append(log, b"a", timestamp=timestamp)
        return log

    return log_of


def base_offsets(segments):
    return [segment.base_offset for segment in segments]


def retained(log, *, now_ms=NOW_MS):
    """Where the segments begin that were removed, and those that were not."""
    removed = outlived_segments(log, now_ms=now_ms)
    assert log.start_offset <= log.high_watermark
    return base_offsets(removed), base_offsets(log.segments)


class TestByTime:
    def test_what_is_older_than_allowed_goes(self, log_of):
        log = log_of(NOW_MS - 30, NOW_MS - 20, NOW_MS - 10, retention_ms=15)
        assert retained(log) == ([0, 1], [2])
        assert log.start_offset == 2

    def test_what_is_just_as_old_as_allowed_stays(self, log_of):
        log = log_of(NOW_MS - 16, NOW_MS - 15, NOW_MS, retention_ms=15)
        assert retained(log) == ([0], [1, 2])

    def test_the_youngest_record_of_a_segment_counts(self, log_of):
        log = log_of(NOW_MS - 30, retention_ms=15)
        append(log, b"b", timestamp=NOW_MS)
        append(log, b"c", timestamp=NOW_MS - 40)
        assert retained(log) == ([], [0])

    def test_a_young_segment_keeps_those_that_follow_it(self, log_of):
        log = log_of(NOW_MS - 30, NOW_MS, NOW_MS - 30, NOW_MS - 30, retention_ms=15)
        assert retained(log) == ([0], [1, 2, 3])

    def test_negative_is_for_ever(self, log_of):
        log = log_of(0, 1, 2, retention_ms=-1)
        assert retained(log) == ([], [0, 1, 2])

    def test_zero_keeps_what_is_not_yet_past(self, log_of):
        log = log_of(NOW_MS - 1, NOW_MS, NOW_MS + 1, retention_ms=0)
        assert retained(log) == ([0], [1, 2])

    def test_if_all_is_too_old_an_empty_segment_takes_its_place(self, log_of):
        log = log_of(10, 20, 30, retention_ms=15)
        assert retained(log) == ([0, 1, 2], [3])
        assert (log.start_offset, log.end_offset, log.size_bytes) == (3, 3, 0)
        assert retained(log) == ([], [3])

    def test_the_next_offset_is_not_forgotten_with_the_records(self, log_of, directory):
        log = log_of(10, 20, retention_ms=15)
        retained(log)
        log.abandon()
        assert append(recovered(directory), b"b").first_offset == 2

    def test_without_timestamps_the_time_of_writing_counts(self, directory):
        log = opened(directory, retention_ms=DAY_MS)
        for offset in range(3):
            log.roll(now_ms=NOW_MS)
            log.append_as_follower(bytearray(message(0, b"a", offset=offset)), now_ms=NOW_MS)
            path = log.segments.active.path(Content.BATCHES)
            written_ms = NOW_MS - (2 - offset) * DAY_MS
            os.utime(path, ns=(written_ms * 1_000_000,) * 2)
        log.advance_high_watermark(3)
        assert retained(log) == ([0], [1, 2])
        assert retained(log, now_ms=NOW_MS + 1) == ([1], [2])


class TestClocks:
    def test_r12_records_from_the_future_are_kept(self, log_of):
        log = log_of(NOW_MS + 365 * DAY_MS, NOW_MS - 30, retention_ms=15)
        assert retained(log) == ([], [0, 1])

    def test_r12_a_clock_that_went_back_removes_nothing(self, log_of):
        log = log_of(NOW_MS - 10, NOW_MS, retention_ms=15)
        assert retained(log, now_ms=NOW_MS - DAY_MS) == ([], [0, 1])
        assert retained(log, now_ms=0) == ([], [0, 1])

    def test_r12_what_was_appended_while_the_clock_was_ahead_is_kept_until_it_is_old(self, log_of):
        log = log_of(NOW_MS - 10, NOW_MS + DAY_MS, NOW_MS, retention_ms=15)
        assert retained(log, now_ms=NOW_MS + DAY_MS) == ([0], [1, 2])
        assert retained(log, now_ms=NOW_MS + DAY_MS + 16) == ([1, 2], [3])


class TestBySize:
    def test_a_segment_goes_if_what_is_left_is_as_large_as_allowed(self, log_of):
        log = log_of(*range(5), retention_bytes=2 * BATCH_BYTES)
        assert retained(log) == ([0, 1, 2], [3, 4])
        assert log.size_bytes == 2 * BATCH_BYTES

    def test_a_segment_stays_if_a_byte_too_few_would_be_left(self, log_of):
        log = log_of(*range(5), retention_bytes=2 * BATCH_BYTES + 1)
        assert retained(log) == ([0, 1], [2, 3, 4])

    def test_negative_is_without_bound(self, log_of):
        log = log_of(*range(5), retention_bytes=-1)
        assert retained(log) == ([], [0, 1, 2, 3, 4])

    def test_zero_keeps_nothing(self, log_of):
        log = log_of(*range(3), retention_bytes=0)
        assert retained(log) == ([0, 1, 2], [3])

    def test_a_log_that_is_smaller_than_allowed_is_left_alone(self, log_of):
        log = log_of(0, 1, retention_bytes=10**9)
        assert retained(log) == ([], [0, 1])

    def test_size_and_time_are_both_enforced(self, log_of):
        log = log_of(NOW_MS, NOW_MS - 30, NOW_MS, retention_bytes=2 * BATCH_BYTES, retention_ms=15)
        assert retained(log) == ([0, 1], [2])


class TestByStart:
    def test_what_lies_wholly_before_the_start_goes(self, log_of):
        log = log_of(*range(4))
        log.advance_start(2)
        assert retained(log) == ([0, 1], [2, 3])

    def test_a_segment_that_the_start_lies_in_stays_whole(self, directory):
        log = opened(directory)
        append(log, b"a", b"b", b"c")
        log.roll(now_ms=NOW_MS)
        append(log, b"d")
        log.advance_start(2)
        assert retained(log) == ([], [0, 3])
        assert [record.offset for record in records_from(log)] == [2, 3]

    def test_a_compacted_log_loses_nothing_else(self, directory):
        log = opened(directory, cleanup_policy=("compact",), retention_ms=15, retention_bytes=0)
        for _ in range(3):
            append(log, b"a", key=b"k", timestamp=0)
            log.roll(now_ms=NOW_MS)
        assert retained(log) == ([], [0, 1, 2, 3])
        log.advance_start(1)
        assert retained(log) == ([0], [1, 2, 3])

    def test_a_compacted_log_that_also_deletes_loses_what_is_old(self, directory):
        log = opened(directory, cleanup_policy=("compact", "delete"), retention_ms=15)
        for timestamp in (NOW_MS - 30, NOW_MS):
            append(log, b"a", key=b"k", timestamp=timestamp)
            log.roll(now_ms=NOW_MS)
        assert retained(log) == ([0], [1, 2])

    def test_an_emptied_log_gives_up_the_active_segment_only_by_time_or_size(self, log_of):
        log = log_of(0, 1)
        log.advance_start(2)
        assert retained(log) == ([0], [1])


class TestWhatIsTold:
    def test_each_segment_goes_for_one_reason(self, log_of):
        log = log_of(*range(4), NOW_MS, retention_bytes=3 * BATCH_BYTES, retention_ms=15)
        log.advance_start(1)
        gone = apply_retention(log, now_ms=NOW_MS)
        assert [(each.segment.base_offset, each.reason) for each in gone] == [
            (0, Reason.START),
            (1, Reason.SIZE),
            (2, Reason.TIME),
            (3, Reason.TIME),
        ]
        assert {each.partition for each in gone} == {log.partition}

    def test_r12_what_is_deleted_though_it_was_just_written_can_be_seen(self, log_of):
        log = log_of(NOW_MS - 2 * DAY_MS, NOW_MS, retention_ms=DAY_MS)
        path = log.segments.first.path(Content.BATCHES)
        os.utime(path, ns=((NOW_MS - 10) * 1_000_000,) * 2)
        (gone,) = apply_retention(log, now_ms=NOW_MS)
        assert (gone.largest_timestamp, gone.written_ms) == (NOW_MS - 2 * DAY_MS, NOW_MS - 10)

    def test_the_largest_timestamp_is_told_whatever_the_reason(self, log_of):
        log = log_of(5, 7, 9, retention_bytes=BATCH_BYTES)
        log.advance_start(1)
        gone = apply_retention(log, now_ms=NOW_MS)
        assert [each.largest_timestamp for each in gone] == [5, 7]

    def test_a_line_for_the_log_names_partition_segment_reason_and_timestamp(self, log_of):
        log = log_of(12345, NOW_MS, retention_ms=15)
        line = str(apply_retention(log, now_ms=NOW_MS)[0])
        assert line.startswith(f"{log.partition}: the segment at 0, of {BATCH_BYTES} bytes, ")
        assert "retention.ms" in line
        assert "largest timestamp is 12345" in line


class TestTheHighWatermark:
    def test_nothing_that_it_has_not_passed_goes(self, log_of):
        log = log_of(0, 1, 2, retention_ms=15)
        log.advance_high_watermark(1)
        assert retained(log) == ([0], [1, 2])

    def test_a_segment_that_it_lies_in_stays(self, directory):
        log = opened(directory, retention_ms=15)
        append(log, b"a", b"b", timestamp=0)
        log.roll(now_ms=NOW_MS)
        append(log, b"c", timestamp=0)
        log.advance_high_watermark(1)
        assert retained(log) == ([], [0, 2])

    def test_one_that_is_not_known_yet_keeps_everything(self, log_of, directory):
        log_of(0, 1, 2).close(now_ms=NOW_MS)
        log = opened(directory, retention_ms=15)
        log.high_watermark = log.start_offset
        assert retained(log) == ([], [0, 1, 2])


class TestWhatRemains:
    def test_s8_the_start_only_grows_and_what_lies_before_it_is_out_of_range(self, log_of):
        log = log_of(*range(6), retention_bytes=3 * BATCH_BYTES)
        log.advance_start(4)
        retained(log)
        assert log.start_offset == 4
        for offset in range(4):
            with pytest.raises(OffsetOutOfRange):
                log.read(offset, max_bytes=100, up_to=6)
        assert [record.offset for record in records_from(log)] == [4, 5]

    def test_s8_a_reader_keeps_what_it_was_lent(self, log_of):
        log = log_of(0, 1, 2, retention_ms=15)
        region = log.read(0, max_bytes=1000, up_to=3)
        before = bytes_of(region)
        remove(outlived_segments(log))
        assert bytes_of(region) == before

    def test_s7_no_timestamp_leads_below_the_start(self, log_of):
        log = log_of(10, 20, 30, retention_bytes=BATCH_BYTES)
        retained(log)
        assert first_at_or_after(log, 0).offset == 2

    def test_producers_of_removed_records_are_remembered(self, directory):
        log = opened(directory, retention_ms=15)
        sent = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "timestamp": 0}
        append(log, b"a", **sent)
        log.roll(now_ms=NOW_MS)
        append(log, b"b", timestamp=NOW_MS)
        retained(log)
        assert append(log, b"a", **sent).is_duplicate

    def test_an_open_transaction_that_was_removed_holds_the_stable_part_at_the_start(
        self, directory
    ):
        log = opened(directory, retention_ms=15)
        transaction = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
        append(log, b"a", base_sequence=0, timestamp=0, **transaction)
        log.roll(now_ms=NOW_MS)
        append(log, b"b", timestamp=NOW_MS)
        retained(log)
        assert (log.start_offset, log.last_stable_offset) == (1, 1)
        end_transaction(log, producer_id=7, commit=False)
        assert log.last_stable_offset == log.end_offset == 3
        aborted = log.aborted_transactions(start=1, end=3)
        assert [(each.first_offset, each.last_offset) for each in aborted] == [(0, 2)]

    def test_leader_epochs_begin_at_the_start(self, directory):
        log = opened(directory, retention_ms=15)
        for epoch, timestamp in ((1, 0), (2, 0), (5, NOW_MS)):
            append(log, b"a", leader_epoch=epoch, timestamp=timestamp)
            append(log, b"a", leader_epoch=epoch, timestamp=timestamp)
            log.roll(now_ms=NOW_MS)
        retained(log)
        assert log.epochs.entries == ((5, 4),)

    def test_their_files_wait_under_another_name_until_they_are_removed(self, log_of, directory):
        log = log_of(0, 1, 2, retention_bytes=BATCH_BYTES)
        removed = outlived_segments(log)
        assert {path.name for path in directory.glob("*.log*")} == {
            "00000000000000000000.log.deleted",
            "00000000000000000001.log.deleted",
            "00000000000000000002.log",
        }
        remove(removed)
        assert list(directory.glob("*.deleted")) == []
