"""Segments deleted because of retention time, retention size or the log start offset."""

import os

import pytest

from odradek.protocol.errors import OffsetOutOfRange
from odradek.storage.paths import LogFileType
from odradek.storage.retention import SegmentDeletionReason, apply_retention
from odradek.storage.segment_deletion import delete_segment_files
from odradek.storage.timestamp_lookup import offset_for_timestamp
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


def retention_result(log, *, now_ms=NOW_MS):
    """Base offsets of the deleted and of the remaining segments."""
    removed = outlived_segments(log, now_ms=now_ms)
    assert log.log_start_offset <= log.high_watermark
    return base_offsets(removed), base_offsets(log.segments)


class TestByTime:
    def test_segments_older_than_retention_ms_are_deleted(self, log_of):
        log = log_of(NOW_MS - 30, NOW_MS - 20, NOW_MS - 10, retention_ms=15)
        assert retention_result(log) == ([0, 1], [2])
        assert log.log_start_offset == 2

    def test_segment_exactly_as_old_as_retention_ms_is_kept(self, log_of):
        log = log_of(NOW_MS - 16, NOW_MS - 15, NOW_MS, retention_ms=15)
        assert retention_result(log) == ([0], [1, 2])

    def test_youngest_record_of_a_segment_counts(self, log_of):
        log = log_of(NOW_MS - 30, retention_ms=15)
        append(log, b"b", timestamp=NOW_MS)
        append(log, b"c", timestamp=NOW_MS - 40)
        assert retention_result(log) == ([], [0])

    def test_young_segment_keeps_the_later_ones(self, log_of):
        log = log_of(NOW_MS - 30, NOW_MS, NOW_MS - 30, NOW_MS - 30, retention_ms=15)
        assert retention_result(log) == ([0], [1, 2, 3])

    def test_negative_retention_ms_keeps_everything(self, log_of):
        log = log_of(0, 1, 2, retention_ms=-1)
        assert retention_result(log) == ([], [0, 1, 2])

    def test_zero_retention_ms_keeps_records_that_are_not_in_the_past(self, log_of):
        log = log_of(NOW_MS - 1, NOW_MS, NOW_MS + 1, retention_ms=0)
        assert retention_result(log) == ([0], [1, 2])

    def test_log_rolls_an_empty_segment_if_all_segments_are_too_old(self, log_of):
        log = log_of(10, 20, 30, retention_ms=15)
        assert retention_result(log) == ([0, 1, 2], [3])
        assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (3, 3, 0)
        assert retention_result(log) == ([], [3])

    def test_next_offset_is_kept_when_all_records_are_deleted(self, log_of, directory):
        log = log_of(10, 20, retention_ms=15)
        retention_result(log)
        log.close_handlers()
        assert append(recovered(directory), b"b").first_offset == 2

    def test_modification_time_counts_for_records_without_timestamps(self, directory):
        log = opened(directory, retention_ms=DAY_MS)
        for offset in range(3):
            log.roll(now_ms=NOW_MS)
            log.append_as_follower(bytearray(message(0, b"a", offset=offset)), now_ms=NOW_MS)
            path = log.segments.active.path(LogFileType.LOG)
            modified_ms = NOW_MS - (2 - offset) * DAY_MS
            os.utime(path, ns=(modified_ms * 1_000_000,) * 2)
        log.update_high_watermark(3)
        assert retention_result(log) == ([0], [1, 2])
        assert retention_result(log, now_ms=NOW_MS + 1) == ([1], [2])


class TestClocks:
    def test_r12_records_from_the_future_are_kept(self, log_of):
        log = log_of(NOW_MS + 365 * DAY_MS, NOW_MS - 30, retention_ms=15)
        assert retention_result(log) == ([], [0, 1])

    def test_r12_clock_that_went_back_deletes_nothing(self, log_of):
        log = log_of(NOW_MS - 10, NOW_MS, retention_ms=15)
        assert retention_result(log, now_ms=NOW_MS - DAY_MS) == ([], [0, 1])
        assert retention_result(log, now_ms=0) == ([], [0, 1])

    def test_r12_records_appended_while_the_clock_was_ahead_are_kept_until_old(self, log_of):
        log = log_of(NOW_MS - 10, NOW_MS + DAY_MS, NOW_MS, retention_ms=15)
        assert retention_result(log, now_ms=NOW_MS + DAY_MS) == ([0], [1, 2])
        assert retention_result(log, now_ms=NOW_MS + DAY_MS + 16) == ([1, 2], [3])


class TestBySize:
    def test_segment_is_deleted_if_the_rest_reaches_retention_bytes(self, log_of):
        log = log_of(*range(5), retention_bytes=2 * BATCH_BYTES)
        assert retention_result(log) == ([0, 1, 2], [3, 4])
        assert log.size_bytes == 2 * BATCH_BYTES

    def test_segment_is_kept_if_the_rest_is_below_retention_bytes(self, log_of):
        log = log_of(*range(5), retention_bytes=2 * BATCH_BYTES + 1)
        assert retention_result(log) == ([0, 1], [2, 3, 4])

    def test_negative_retention_bytes_keeps_everything(self, log_of):
        log = log_of(*range(5), retention_bytes=-1)
        assert retention_result(log) == ([], [0, 1, 2, 3, 4])

    def test_zero_retention_bytes_keeps_nothing(self, log_of):
        log = log_of(*range(3), retention_bytes=0)
        assert retention_result(log) == ([0, 1, 2], [3])

    def test_log_smaller_than_retention_bytes_is_kept(self, log_of):
        log = log_of(0, 1, retention_bytes=10**9)
        assert retention_result(log) == ([], [0, 1])

    def test_size_and_time_are_both_enforced(self, log_of):
        log = log_of(NOW_MS, NOW_MS - 30, NOW_MS, retention_bytes=2 * BATCH_BYTES, retention_ms=15)
        assert retention_result(log) == ([0, 1], [2])


class TestByStartOffset:
    def test_segments_wholly_before_the_log_start_are_deleted(self, log_of):
        log = log_of(*range(4))
        log.maybe_increment_log_start_offset(2)
        assert retention_result(log) == ([0, 1], [2, 3])

    def test_segment_that_holds_the_log_start_is_kept(self, directory):
        log = opened(directory)
        append(log, b"a", b"b", b"c")
        log.roll(now_ms=NOW_MS)
        append(log, b"d")
        log.maybe_increment_log_start_offset(2)
        assert retention_result(log) == ([], [0, 3])
        assert [record.offset for record in records_from(log)] == [2, 3]

    def test_compacted_log_deletes_only_before_the_log_start(self, directory):
        log = opened(directory, cleanup_policy=("compact",), retention_ms=15, retention_bytes=0)
        for _ in range(3):
            append(log, b"a", key=b"k", timestamp=0)
            log.roll(now_ms=NOW_MS)
        assert retention_result(log) == ([], [0, 1, 2, 3])
        log.maybe_increment_log_start_offset(1)
        assert retention_result(log) == ([0], [1, 2, 3])

    def test_compact_delete_policy_deletes_old_segments(self, directory):
        log = opened(directory, cleanup_policy=("compact", "delete"), retention_ms=15)
        for timestamp in (NOW_MS - 30, NOW_MS):
            append(log, b"a", key=b"k", timestamp=timestamp)
            log.roll(now_ms=NOW_MS)
        assert retention_result(log) == ([0], [1, 2])

    def test_active_segment_is_not_deleted_because_of_the_log_start(self, log_of):
        log = log_of(0, 1)
        log.maybe_increment_log_start_offset(2)
        assert retention_result(log) == ([0], [1])


class TestDeletionReports:
    def test_each_deletion_has_one_reason(self, log_of):
        log = log_of(*range(4), NOW_MS, retention_bytes=3 * BATCH_BYTES, retention_ms=15)
        log.maybe_increment_log_start_offset(1)
        deletions = apply_retention(log, now_ms=NOW_MS)
        assert [(deletion.segment.base_offset, deletion.reason) for deletion in deletions] == [
            (0, SegmentDeletionReason.START_OFFSET_BREACH),
            (1, SegmentDeletionReason.RETENTION_SIZE_BREACH),
            (2, SegmentDeletionReason.RETENTION_MS_BREACH),
            (3, SegmentDeletionReason.RETENTION_MS_BREACH),
        ]
        assert {deletion.partition for deletion in deletions} == {log.partition}

    def test_r12_report_has_max_timestamp_and_modification_time(self, log_of):
        log = log_of(NOW_MS - 2 * DAY_MS, NOW_MS, retention_ms=DAY_MS)
        path = log.segments.first.path(LogFileType.LOG)
        os.utime(path, ns=((NOW_MS - 10) * 1_000_000,) * 2)
        (deletion,) = apply_retention(log, now_ms=NOW_MS)
        assert (deletion.max_timestamp, deletion.last_modified_ms) == (
            NOW_MS - 2 * DAY_MS,
            NOW_MS - 10,
        )

    def test_report_has_the_max_timestamp_for_every_reason(self, log_of):
        log = log_of(5, 7, 9, retention_bytes=BATCH_BYTES)
        log.maybe_increment_log_start_offset(1)
        deletions = apply_retention(log, now_ms=NOW_MS)
        assert [deletion.max_timestamp for deletion in deletions] == [5, 7]

    def test_report_text_names_partition_segment_reason_and_timestamp(self, log_of):
        log = log_of(12345, NOW_MS, retention_ms=15)
        text = str(apply_retention(log, now_ms=NOW_MS)[0])
        assert text.startswith(
            f"{log.partition}: Deleting segment (baseOffset=0, size={BATCH_BYTES}) "
        )
        assert "retention.ms" in text
        assert "largest timestamp 12345" in text


class TestHighWatermark:
    def test_segments_above_the_high_watermark_are_kept(self, log_of):
        log = log_of(0, 1, 2, retention_ms=15)
        log.update_high_watermark(1)
        assert retention_result(log) == ([0], [1, 2])

    def test_segment_that_holds_the_high_watermark_is_kept(self, directory):
        log = opened(directory, retention_ms=15)
        append(log, b"a", b"b", timestamp=0)
        log.roll(now_ms=NOW_MS)
        append(log, b"c", timestamp=0)
        log.update_high_watermark(1)
        assert retention_result(log) == ([], [0, 2])

    def test_unknown_high_watermark_keeps_everything(self, log_of, directory):
        log_of(0, 1, 2).close(now_ms=NOW_MS)
        log = opened(directory, retention_ms=15)
        log.high_watermark = log.log_start_offset
        assert retention_result(log) == ([], [0, 1, 2])


class TestRemainingLog:
    def test_s8_log_start_never_moves_back_and_earlier_offsets_are_out_of_range(self, log_of):
        log = log_of(*range(6), retention_bytes=3 * BATCH_BYTES)
        log.maybe_increment_log_start_offset(4)
        retention_result(log)
        assert log.log_start_offset == 4
        for offset in range(4):
            with pytest.raises(OffsetOutOfRange):
                log.read(offset, max_bytes=100, max_offset=6)
        assert [record.offset for record in records_from(log)] == [4, 5]

    def test_s8_region_stays_readable_after_deletion(self, log_of):
        log = log_of(0, 1, 2, retention_ms=15)
        region = log.read(0, max_bytes=1000, max_offset=3)
        before = bytes_of(region)
        delete_segment_files(outlived_segments(log))
        assert bytes_of(region) == before

    def test_s7_timestamp_lookup_returns_no_offset_below_the_log_start(self, log_of):
        log = log_of(10, 20, 30, retention_bytes=BATCH_BYTES)
        retention_result(log)
        assert offset_for_timestamp(log, 0).offset == 2

    def test_producers_of_deleted_records_are_remembered(self, directory):
        log = opened(directory, retention_ms=15)
        fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "timestamp": 0}
        append(log, b"a", **fields)
        log.roll(now_ms=NOW_MS)
        append(log, b"b", timestamp=NOW_MS)
        retention_result(log)
        assert append(log, b"a", **fields).is_duplicate

    def test_deleted_open_transaction_holds_the_last_stable_offset_at_the_start(self, directory):
        log = opened(directory, retention_ms=15)
        transaction = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
        append(log, b"a", base_sequence=0, timestamp=0, **transaction)
        log.roll(now_ms=NOW_MS)
        append(log, b"b", timestamp=NOW_MS)
        retention_result(log)
        assert (log.log_start_offset, log.last_stable_offset) == (1, 1)
        end_transaction(log, producer_id=7, commit=False)
        assert log.last_stable_offset == log.log_end_offset == 3
        aborted = log.collect_aborted_transactions(start=1, end=3)
        assert [(aborted_txn.first_offset, aborted_txn.last_offset) for aborted_txn in aborted] == [
            (0, 2)
        ]

    def test_leader_epochs_start_at_the_log_start_offset(self, directory):
        log = opened(directory, retention_ms=15)
        for epoch, timestamp in ((1, 0), (2, 0), (5, NOW_MS)):
            append(log, b"a", leader_epoch=epoch, timestamp=timestamp)
            append(log, b"a", leader_epoch=epoch, timestamp=timestamp)
            log.roll(now_ms=NOW_MS)
        retention_result(log)
        assert log.leader_epoch_cache.entries == ((5, 4),)

    def test_files_of_deleted_segments_are_renamed_before_they_are_removed(self, log_of, directory):
        log = log_of(0, 1, 2, retention_bytes=BATCH_BYTES)
        removed = outlived_segments(log)
        assert {path.name for path in directory.glob("*.log*")} == {
            "00000000000000000000.log.deleted",
            "00000000000000000001.log.deleted",
            "00000000000000000002.log",
        }
        delete_segment_files(removed)
        assert list(directory.glob("*.deleted")) == []
