"""Truncating the end of a log, or all of it."""

import pytest

from odradek.protocol.errors import OutOfOrderSequenceNumber
from odradek.protocol.records.batch import CONTROL_FLAG
from odradek.storage.log_truncation import (
    plan_full_truncation,
    truncate_fully_and_start_at,
    truncate_to,
)
from odradek.storage.paths import LogFileType
from odradek.storage.timestamp_lookup import offset_for_timestamp, offset_of_max_timestamp
from tests.support.damage import flip_in_batch
from tests.support.faulty_disk import SYNCS, FaultyDisk
from tests.support.legacy_messages import message, wrapper
from tests.support.logs import (
    NOW_MS,
    PRODUCER_SETTINGS,
    append,
    bytes_of,
    end_transaction,
    opened,
    records_batch,
    records_from,
    recovered,
)

#: Position of the low attributes byte in a batch of magic 2.
ATTRIBUTES_POSITION = 22
SMALL = {"segment_bytes": 1100, "index_interval_bytes": 100}


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "events-0"


@pytest.fixture
def log(directory):
    """Ten batches of three records each, in segments of three batches."""
    log = opened(directory, **SMALL)
    for number in range(10):
        append(log, *[b"%03d" % number + bytes(80)] * 3, timestamp=NOW_MS + number)
    assert base_offsets(log) == [0, 9, 18, 27]
    return log


def base_offsets(log):
    return [segment.base_offset for segment in log.segments]


def offsets(log, start=None):
    return [record.offset for record in records_from(log, start)]


def truncate(log, offset):
    return truncate_to(log, offset, now_ms=NOW_MS)


def names(directory, ending):
    return sorted(path.name.split(".")[0].lstrip("0") or "0" for path in directory.glob(ending))


class TestRemainingRecords:
    @pytest.mark.parametrize("offset", range(31))
    def test_records_before_the_offset_remain_except_in_a_batch_that_spans_it(self, log, offset):
        truncate(log, offset)
        end = offset - offset % 3
        assert (log.log_end_offset, offsets(log)) == (end, list(range(end)))

    @pytest.mark.parametrize("offset", range(0, 31, 4))
    def test_remaining_records_are_found_by_offset_and_timestamp(self, log, offset):
        truncate(log, offset)
        for start in range(log.log_end_offset):
            assert offsets(log, start) == list(range(start, log.log_end_offset))
        for number in range(10):
            timestamp_and_offset = offset_for_timestamp(log, NOW_MS + number)
            is_left = 3 * number < log.log_end_offset
            assert (timestamp_and_offset.offset if timestamp_and_offset else None) == (
                3 * number if is_left else None
            )

    @pytest.mark.parametrize("offset", range(0, 31, 4))
    @pytest.mark.parametrize("is_clean", [True, False])
    def test_remaining_records_are_there_after_reopening(self, log, directory, offset, is_clean):
        truncate(log, offset)
        append(log, b"new")
        end = log.log_end_offset
        if is_clean:
            log.close(now_ms=NOW_MS)
            reopened = opened(directory, **SMALL)
        else:
            log.close_handlers()
            reopened = recovered(directory, **SMALL, recovery_point=log.recovery_point)
        assert offsets(reopened) == list(range(end))
        assert records_from(reopened)[-1].value == b"new"

    def test_next_append_reuses_the_truncated_offset(self, log):
        truncate(log, 14)
        assert append(log, b"new").first_offset == 12
        assert offsets(log) == list(range(13))

    def test_truncation_at_or_beyond_the_end_changes_nothing(self, log):
        assert truncate(log, 30) == truncate(log, 31) == []
        assert log.log_end_offset == 30
        assert log.truncation_offsets == []

    def test_segment_that_begins_at_the_offset_is_emptied(self, log):
        dropped = truncate(log, 18)
        assert [segment.base_offset for segment in dropped] == [27]
        assert base_offsets(log) == [0, 9, 18]
        assert log.segments.active.size_bytes == 0

    def test_truncation_inside_a_compaction_gap_ends_at_the_offset(self, directory):
        log = opened(directory)
        for base_offset in (0, 10, 20):
            log.append_as_follower(records_batch(b"a", base_offset=base_offset), now_ms=NOW_MS)
        truncate(log, 15)
        assert (log.log_end_offset, offsets(log)) == (15, [0, 10])

    def test_legacy_wrapper_that_spans_the_offset_is_removed(self, directory):
        log = opened(directory)
        inner = message(1, b"b", offset=0) + message(1, b"c", offset=1)
        content = message(1, b"a", offset=0) + wrapper(1, inner, offset=2)
        log.append_as_follower(bytearray(content), now_ms=NOW_MS)
        truncate(log, 2)
        assert offsets(log) == [0]

    def test_preallocated_file_ends_with_its_batches(self, directory):
        log = opened(directory, preallocate=True, segment_bytes=4096)
        append(log, b"a")
        append(log, b"b")
        truncate(log, 1)
        append(log, b"c")
        log.close(now_ms=NOW_MS)
        reopened = opened(directory, preallocate=True, segment_bytes=4096)
        assert [record.value for record in records_from(reopened)] == [b"a", b"c"]
        assert reopened.segments.active.path(LogFileType.LOG).stat().st_size == reopened.size_bytes


class TestOffsets:
    def test_high_watermark_and_recovery_point_do_not_pass_the_end(self, log):
        log.flush(now_ms=NOW_MS)
        truncate(log, 12)
        assert (log.high_watermark, log.recovery_point, log.log_start_offset) == (12, 12, 0)

    def test_high_watermark_and_recovery_point_before_the_offset_stay(self, log):
        log.flush(now_ms=NOW_MS)
        log.update_high_watermark(3)
        log.recovery_point = 6
        truncate(log, 12)
        assert (log.high_watermark, log.recovery_point) == (3, 6)

    def test_log_start_offset_moves_back_with_the_end(self, log):
        log.maybe_increment_log_start_offset(25)
        truncate(log, 20)
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (18, 18, 18)

    def test_flush_in_progress_does_not_cover_records_written_after_truncation(self, log):
        plan = log.plan_flush()
        truncate(log, 12)
        append(log, b"new")
        plan.run()
        log.mark_flushed(plan, now_ms=NOW_MS)
        assert log.recovery_point == 12

    def test_truncation_before_the_first_segment_truncates_fully(self, log, directory):
        log.close(now_ms=NOW_MS)
        for path in directory.glob("00000000000000000000.*"):
            path.unlink()
        log = opened(directory, **SMALL)
        assert log.log_start_offset == 9
        dropped = truncate(log, 5)
        assert [segment.base_offset for segment in dropped] == [9, 18, 27]
        assert (log.log_start_offset, log.log_end_offset, base_offsets(log)) == (5, 5, [5])


def append_idempotent(log, sequence, *values):
    return append(log, *values, producer_id=7, producer_epoch=0, base_sequence=sequence)


class TestProducers:
    def test_retry_of_a_truncated_batch_is_appended(self, directory):
        log = opened(directory)
        append_idempotent(log, 0, b"a")
        append_idempotent(log, 1, b"b")
        truncate(log, 1)
        reopened = append_idempotent(log, 1, b"b")
        assert (reopened.is_duplicate, reopened.first_offset) == (False, 1)

    def test_retry_of_a_remaining_batch_is_a_duplicate(self, directory):
        log = opened(directory)
        append_idempotent(log, 0, b"a")
        append_idempotent(log, 1, b"b")
        truncate(log, 1)
        assert append_idempotent(log, 0, b"a").is_duplicate
        with pytest.raises(OutOfOrderSequenceNumber):
            append_idempotent(log, 2, b"c")

    def test_snapshots_beyond_the_offset_are_removed(self, directory):
        log = opened(directory)
        for number in range(6):
            append_idempotent(log, number, b"a")
            log.roll(now_ms=NOW_MS)
        truncate(log, 3)
        assert max(log.producer_state_manager.snapshots.offsets) <= 3
        assert names(directory, "*.snapshot") == ["1", "2", "3"]

    def test_producers_are_rebuilt_from_the_readable_batches(self, directory):
        log = opened(directory)
        append_idempotent(log, 0, b"a")
        append(log, b"damaged")
        log.roll(now_ms=NOW_MS)
        append(log, b"b", producer_id=8, producer_epoch=0, base_sequence=0)
        append(log, b"c")
        for path in list(directory.glob("*.snapshot")):
            path.unlink()
        flip_in_batch(log.segments.first, 1, 65)
        truncate(log, 3)
        assert log.log_end_offset == 3
        assert set(log.producer_state_manager.active_producers) == {7, 8}


def append_transactional(log, producer_id):
    return append(
        log,
        b"x",
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def expire_producers(log):
    log.producer_state_manager.remove_expired_producers(
        NOW_MS + PRODUCER_SETTINGS.producer_id_expiration_ms
    )
    assert len(log.producer_state_manager) == 0


class TestTransactions:
    def test_transaction_whose_marker_was_truncated_is_open_again(self, directory):
        log = opened(directory)
        append_transactional(log, 1)
        end_transaction(log, producer_id=1, commit=False)
        append(log, b"y")
        assert log.last_stable_offset == 3
        truncate(log, 1)
        assert (log.last_stable_offset, log.high_watermark) == (0, 1)
        assert log.collect_aborted_transactions(start=0, end=9) == []
        end_transaction(log, producer_id=1, commit=True)
        assert log.last_stable_offset == 2

    @pytest.mark.parametrize("rolled", [(), ("before",), ("after",), ("before", "after")])
    def test_transaction_of_an_expired_producer_is_open_again(self, directory, rolled):
        """Otherwise a consumer would read records that are aborted later."""
        log = opened(directory)
        append(log, b"a")
        append_transactional(log, 1)
        if "before" in rolled:
            log.roll(now_ms=NOW_MS)
        end_transaction(log, producer_id=1, commit=False)
        expire_producers(log)
        if "after" in rolled:
            log.roll(now_ms=NOW_MS)
        append(log, b"b")
        truncate(log, 2)
        assert (
            log.last_stable_offset
            == log.producer_state_manager.transactions.first_undecided_offset
            == 1
        )
        end_transaction(log, producer_id=1, commit=False)
        aborted = log.collect_aborted_transactions(start=0, end=9)
        assert [aborted_txn[:3] for aborted_txn in aborted] == [(1, 1, 2)]

    def test_transaction_of_an_expired_producer_with_a_damaged_marker_is_open_again(
        self, directory
    ):
        log = opened(directory)
        append_transactional(log, 1)
        end_transaction(log, producer_id=1, commit=False)
        expire_producers(log)
        flip_in_batch(log.segments.active, 1, ATTRIBUTES_POSITION, mask=CONTROL_FLAG)
        truncate(log, 1)
        assert log.last_stable_offset == 0

    def test_remaining_batches_are_not_read_if_there_are_no_producers(self, log):
        """There may be a million small batches.  The damage shows that they are not read."""
        flip_in_batch(log.segments.active, 0, 65)
        append(log, b"b")
        warnings = []
        truncate_to(log, 30, now_ms=NOW_MS, warn=warnings.append)
        assert (log.log_end_offset, warnings) == (30, [])

    def test_wholly_truncated_transaction_is_forgotten(self, directory):
        log = opened(directory)
        append(log, b"a")
        append_transactional(log, 1)
        truncate(log, 1)
        append(log, b"b")
        assert log.last_stable_offset == 2

    def test_aborted_transactions_before_the_offset_remain(self, directory):
        log = opened(directory)
        for producer_id in (1, 2):
            append_transactional(log, producer_id)
            end_transaction(log, producer_id=producer_id, commit=False)
        truncate(log, 3)
        assert [
            aborted_txn.producer_id
            for aborted_txn in log.collect_aborted_transactions(start=0, end=9)
        ] == [1]

    def test_ended_transaction_above_the_high_watermark_stays_unstable(self, directory):
        log = opened(directory)
        append_transactional(log, 1)
        end_transaction(log, producer_id=1, commit=True)
        append(log, b"y")
        log.update_high_watermark(1)
        truncate(log, 2)
        assert log.last_stable_offset == 0
        log.update_high_watermark(2)
        assert log.last_stable_offset == 2


class TestFiles:
    def test_dropped_segments_are_renamed(self, log, directory):
        dropped = truncate(log, 10)
        assert names(directory, "*.log") == ["0", "9"]
        assert names(directory, "*.log.deleted") == ["18", "27"]
        assert {segment.path(LogFileType.LOG).suffix for segment in dropped} == {".deleted"}

    def test_region_of_a_dropped_segment_stays_readable(self, log):
        region = log.read(20, max_bytes=10_000, max_offset=30)
        before = bytes_of(region)
        for segment in truncate(log, 3):
            segment.remove()
        assert bytes_of(region) == before


class TestFullTruncation:
    def test_log_restarts_at_the_given_offset(self, log, directory):
        dropped = truncate_fully_and_start_at(log, 100)
        assert len(dropped) == 4
        ends = (log.log_start_offset, log.high_watermark, log.log_end_offset)
        assert ends == (100, 100, 100)
        assert log.recovery_point <= 100
        assert append(log, b"new").first_offset == 100
        log.close(now_ms=NOW_MS)
        assert offsets(opened(directory, **SMALL)) == [100]

    def test_log_may_restart_at_the_base_offset_of_an_old_segment(self, log, directory):
        truncate_fully_and_start_at(log, 18)
        assert append(log, b"new").first_offset == 18
        log.close_handlers()
        reopened = recovered(directory, **SMALL)
        assert [record.value for record in records_from(reopened)] == [b"new"]

    def test_epochs_producers_and_timestamps_are_forgotten(self, directory):
        log = opened(directory)
        append_transactional(log, 1)
        append_idempotent(log, 0, b"a")
        truncate_fully_and_start_at(log, 50)
        assert log.leader_epoch_cache.entries == ()
        assert dict(log.producer_state_manager.active_producers) == {}
        assert log.last_stable_offset == 50
        assert offset_of_max_timestamp(log) is None
        assert list(directory.glob("*.snapshot")) == []

    def test_log_start_offset_may_lie_before_the_first_offset(self, log):
        truncate_fully_and_start_at(log, 100, log_start_offset=40)
        assert (log.log_start_offset, log.log_end_offset) == (40, 100)
        append(log, b"new")
        assert offsets(log, 40) == [100]

    @pytest.mark.parametrize("new_start", [0, 100])
    def test_empty_log_restarts_elsewhere_without_a_sync(self, log, directory, new_start):
        truncate(log, 0)
        with FaultyDisk(counting=SYNCS) as disk:
            truncation = plan_full_truncation(log, new_start)
            assert disk.changes == 0
            truncation.run()
            assert disk.changes > 0
        assert names(directory, "*.log") == names(directory, "*.index") == [str(new_start)]
        assert append(log, b"new").first_offset == new_start
        log.close(now_ms=NOW_MS)
        assert offsets(opened(directory, **SMALL)) == [new_start]
