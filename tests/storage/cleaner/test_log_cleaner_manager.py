"""Which log is cleaned next, and up to which offset."""

import pytest

from odradek.protocol.types import TopicPartition
from odradek.storage.cleaner.log_cleaner_manager import (
    LogCleanerManager,
    build_log_to_clean,
    cleanable_offsets,
)
from odradek.storage.cleaner.log_cleaning_state import IDLE, PAUSED, RUNNING, STOPPING
from odradek.storage.offset_checkpoints import CLEANER_OFFSETS
from tests.support.compaction import append_pairs, sealed
from tests.support.logs import NOW_MS, opened

HOUR_MS = 3_600_000


def create_log(directory, *segments, partition=0, **settings):
    """Create a log with the given number of equal batches per segment; the last one is active."""
    settings = {"cleanup_policy": ("compact",), **settings}
    log = opened(directory / f"events-{partition}", **settings)
    log.partition = TopicPartition("events", partition)
    for index, count in enumerate(segments):
        if index:
            sealed(log)
        for _ in range(count):
            append_pairs(log, (b"a", b"1"))
    return log


@pytest.fixture
def schedule(tmp_path):
    schedule = LogCleanerManager()
    assert schedule.load_checkpoint(tmp_path) is None
    return schedule


class TestDirtyPart:
    def test_everything_but_the_active_segment_is_dirty_without_a_checkpoint(self, tmp_path):
        log = create_log(tmp_path, 2, 3, 1)
        assert cleanable_offsets(log, last_clean_offset=None, now_ms=NOW_MS) == (0, 5, False)

    def test_offsets_below_the_checkpoint_are_clean(self, tmp_path):
        log = create_log(tmp_path, 2, 3, 1)
        assert cleanable_offsets(log, last_clean_offset=2, now_ms=NOW_MS) == (2, 5, False)

    def test_offsets_from_the_high_watermark_are_not_cleanable(self, tmp_path):
        log = create_log(tmp_path, 2, 3, 1)
        log.update_high_watermark(3)
        assert cleanable_offsets(log, last_clean_offset=None, now_ms=NOW_MS) == (0, 3, False)

    def test_unflushed_offsets_are_not_cleanable(self, tmp_path):
        log = create_log(tmp_path, 2)
        sealed(log)
        append_pairs(log, (b"a", b"1"))
        log.roll(now_ms=NOW_MS)
        assert cleanable_offsets(log, last_clean_offset=None, now_ms=NOW_MS) == (0, 2, False)

    def test_offsets_from_an_open_transaction_are_not_cleanable(self, tmp_path):
        log = create_log(tmp_path, 2)
        fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
        append_pairs(log, (b"a", b"1"), is_transactional=True, **fields)
        append_pairs(log, (b"a", b"1"))
        sealed(log)
        assert cleanable_offsets(log, last_clean_offset=None, now_ms=NOW_MS) == (0, 2, False)

    @pytest.mark.parametrize(("age_ms", "expected"), [(999, 0), (1000, 5)])
    def test_segments_within_min_compaction_lag_are_not_cleanable(self, tmp_path, age_ms, expected):
        log = create_log(tmp_path, 2, 3, 1, min_compaction_lag_ms=1000)
        part = cleanable_offsets(log, last_clean_offset=None, now_ms=NOW_MS + age_ms)
        assert part.first_uncleanable_offset == expected

    def test_first_segment_within_the_lag_ends_the_cleanable_range(self, tmp_path):
        log = create_log(tmp_path, 2, min_compaction_lag_ms=1000)
        append_pairs(sealed(log), (b"a", b"1"), timestamp=NOW_MS + 500)
        append_pairs(sealed(log), (b"a", b"1"), timestamp=NOW_MS)
        sealed(log)
        assert cleanable_offsets(log, last_clean_offset=0, now_ms=NOW_MS + 1200) == (0, 2, False)

    def test_age_of_clean_segments_is_not_checked(self, tmp_path):
        log = create_log(tmp_path, 2, 3, 1, min_compaction_lag_ms=1000)
        assert (
            cleanable_offsets(log, last_clean_offset=2, now_ms=NOW_MS).first_uncleanable_offset == 2
        )

    def test_checkpoint_below_the_log_start_offset_is_raised_to_it(self, tmp_path):
        log = create_log(tmp_path, 2, 3, 1)
        log.maybe_increment_log_start_offset(3)
        assert cleanable_offsets(log, last_clean_offset=2, now_ms=NOW_MS) == (3, 5, True)

    def test_checkpoint_beyond_the_log_end_offset_makes_everything_dirty(self, tmp_path):
        log = create_log(tmp_path, 2, 3, 1)
        assert cleanable_offsets(log, last_clean_offset=6, now_ms=NOW_MS) == (6, 6, False)
        assert cleanable_offsets(log, last_clean_offset=7, now_ms=NOW_MS) == (0, 5, True)


class TestCandidate:
    def test_cleanable_ratio_is_dirty_bytes_to_total_bytes(self, tmp_path):
        log = create_log(tmp_path, 1, 3, 4)
        log_to_clean = build_log_to_clean(log, last_clean_offset=1, now_ms=NOW_MS)
        assert (log_to_clean.first_dirty_offset, log_to_clean.first_uncleanable_offset) == (1, 4)
        assert log_to_clean.cleanable_ratio == 0.75

    def test_only_whole_segments_are_cleaned(self, tmp_path):
        log = create_log(tmp_path, 2, 3, 1)
        log.update_high_watermark(4)
        log_to_clean = build_log_to_clean(log, last_clean_offset=0, now_ms=NOW_MS)
        assert (log_to_clean.first_uncleanable_offset, log_to_clean.cleanable_bytes) == (
            2,
            log.segments.first.size_bytes,
        )

    def test_partly_dirty_segment_counts_as_dirty(self, tmp_path):
        log = create_log(tmp_path, 2, 2, 1)
        log_to_clean = build_log_to_clean(log, last_clean_offset=3, now_ms=NOW_MS)
        assert (
            log_to_clean.first_dirty_offset,
            log_to_clean.first_uncleanable_offset,
            log_to_clean.cleanable_ratio,
        ) == (3, 4, 0.5)

    def test_empty_log_is_not_due(self, tmp_path):
        log = create_log(tmp_path, 0, min_cleanable_dirty_ratio=0.0)
        log_to_clean = build_log_to_clean(log, last_clean_offset=None, now_ms=NOW_MS)
        assert (log_to_clean.cleanable_ratio, log_to_clean.is_due) == (0.0, False)

    def test_ratio_must_exceed_min_cleanable_dirty_ratio(self, tmp_path):
        for min_ratio, is_due in ((0.75, False), (0.74, True)):
            log = create_log(
                tmp_path / str(min_ratio), 1, 3, 4, min_cleanable_dirty_ratio=min_ratio
            )
            assert build_log_to_clean(log, last_clean_offset=1, now_ms=NOW_MS).is_due == is_due

    def test_record_older_than_max_compaction_lag_makes_a_log_due(self, tmp_path):
        log = create_log(tmp_path, 3, 1, 1, max_compaction_lag_ms=HOUR_MS)
        on_time = build_log_to_clean(log, last_clean_offset=3, now_ms=NOW_MS + HOUR_MS)
        late = build_log_to_clean(log, last_clean_offset=3, now_ms=NOW_MS + HOUR_MS + 1)
        assert (on_time.compaction_delay_ms, on_time.is_due) == (0, False)
        assert (late.compaction_delay_ms, late.is_due) == (1, True)

    def test_overdue_log_without_cleanable_segments_is_not_due(self, tmp_path):
        log = create_log(tmp_path, 3, 1, max_compaction_lag_ms=HOUR_MS)
        log.update_high_watermark(0)
        log_to_clean = build_log_to_clean(log, last_clean_offset=0, now_ms=NOW_MS + 2 * HOUR_MS)
        assert (log_to_clean.compaction_delay_ms, log_to_clean.is_due) == (HOUR_MS, False)

    def test_segment_age_is_known_after_a_restart(self, tmp_path):
        log = create_log(tmp_path, 3, 1, max_compaction_lag_ms=HOUR_MS)
        log.close(now_ms=NOW_MS)
        reopened = opened(log.directory, cleanup_policy=("compact",), max_compaction_lag_ms=HOUR_MS)
        assert (
            build_log_to_clean(
                reopened, last_clean_offset=0, now_ms=NOW_MS + HOUR_MS + 7
            ).compaction_delay_ms
            == 7
        )


class TestChoice:
    def test_dirtiest_due_log_is_chosen(self, tmp_path, schedule):
        logs = [create_log(tmp_path, 2, 2, 1, partition=index) for index in range(3)]
        schedule.update_checkpoint(logs[0], 4)
        schedule.update_checkpoint(logs[1], 2)
        log_to_clean = schedule.grab_filthiest_compacted_log(logs, now_ms=NOW_MS)
        assert (log_to_clean.partition, log_to_clean.first_uncleanable_offset) == (
            logs[2].partition,
            4,
        )
        assert schedule.states[log_to_clean.partition] is RUNNING
        assert schedule.dirtiest_ratio == 1.0

    def test_log_is_not_chosen_twice(self, tmp_path, schedule):
        log = create_log(tmp_path, 2, 1)
        assert schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS)
        assert schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS) is None

    def test_log_with_the_delete_policy_is_never_chosen(self, tmp_path, schedule):
        log = create_log(tmp_path, 2, 1, cleanup_policy=("delete",))
        assert schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS) is None

    def test_done_cleaning_sets_the_checkpoint(self, tmp_path, schedule):
        log = create_log(tmp_path, 2, 1)
        schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS)
        schedule.done_cleaning(log, 2)
        assert schedule.last_clean_offset(log) == 2
        assert schedule.states[log.partition] is IDLE
        assert schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS) is None

    def test_aborted_log_is_chosen_again(self, tmp_path, schedule):
        log = create_log(tmp_path, 2, 1)
        log_to_clean = schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS)
        schedule.on_cleaning_aborted(log)
        assert schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS) == log_to_clean

    def test_uncleanable_log_is_skipped_until_it_is_deleted(self, tmp_path, schedule):
        log = create_log(tmp_path, 2, 1)
        schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS)
        schedule.mark_partition_uncleanable(log)
        assert schedule.uncleanable_partitions == {log.partition}
        assert schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS) is None
        assert schedule.begin_retention([log]) == []
        schedule.remove_partition(log.partition)
        assert schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS)

    def test_invalid_checkpoint_is_reset(self, tmp_path, schedule):
        log = create_log(tmp_path, 2, 1)
        schedule.update_checkpoint(log, 99)
        schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS)
        assert schedule.last_clean_offset(log) == 0

    def test_max_compaction_delay_is_recorded(self, tmp_path, schedule):
        log = create_log(tmp_path, 2, 1, max_compaction_lag_ms=HOUR_MS)
        schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS + HOUR_MS + 5)
        assert schedule.max_compaction_delay_ms == 5


class TestRetentionAndPauses:
    def test_retention_gets_idle_logs_of_any_policy(self, tmp_path, schedule):
        both = create_log(tmp_path, 2, 1, partition=0, cleanup_policy=("compact", "delete"))
        compacted = create_log(tmp_path, 2, 1, partition=1)
        deleting = create_log(tmp_path, 2, 1, partition=2, cleanup_policy=("delete",))
        busy = create_log(tmp_path, 2, 1, partition=3)
        schedule.grab_filthiest_compacted_log([busy], now_ms=NOW_MS)
        busy.configure(deleting.settings)
        retained = schedule.begin_retention([both, compacted, deleting, busy])
        assert retained == [both, compacted, deleting]
        assert (
            schedule.grab_filthiest_compacted_log([both, compacted, deleting, busy], now_ms=NOW_MS)
            is None
        )
        schedule.end_retention(retained)
        assert schedule.grab_filthiest_compacted_log([both], now_ms=NOW_MS)

    def test_idle_log_is_paused_immediately(self, tmp_path, schedule):
        log = create_log(tmp_path, 2, 1)
        assert schedule.pause(log.partition)
        assert schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS) is None
        schedule.resume(log.partition)
        assert schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS)

    def test_running_cleaning_is_paused_when_it_ends(self, tmp_path, schedule):
        log = create_log(tmp_path, 2, 1)
        schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS)
        assert not schedule.pause(log.partition)
        assert schedule.states[log.partition] is STOPPING
        schedule.on_cleaning_aborted(log)
        assert schedule.states[log.partition] is PAUSED

    def test_cleaning_that_completes_while_stopping_sets_the_checkpoint(self, tmp_path, schedule):
        log = create_log(tmp_path, 2, 1)
        schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS)
        schedule.pause(log.partition)
        schedule.done_cleaning(log, 2)
        assert schedule.last_clean_offset(log) == 2

    def test_log_and_its_future_log_share_retention(self, tmp_path, schedule):
        log = create_log(tmp_path / "a", 2, 1)
        future = create_log(tmp_path / "b", 2, 1)
        assert schedule.begin_retention([log, future]) == [log, future]
        schedule.end_retention([future])
        assert schedule.states[log.partition] is RUNNING
        schedule.end_retention([log])
        assert schedule.states[log.partition] is IDLE

    def test_log_dir_failure_ends_its_cleanings(self, tmp_path, schedule):
        log = create_log(tmp_path, 2, 1)
        schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS)
        assert not schedule.pause(log.partition)
        schedule.handle_log_dir_failure(tmp_path)
        assert schedule.states[log.partition] is PAUSED

    def test_pause_of_a_deleted_log_does_not_affect_a_new_one(self, tmp_path, schedule):
        log = create_log(tmp_path, 2, 1)
        schedule.pause(log.partition)
        schedule.remove_partition(log.partition)
        assert schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS)


class TestCheckpoint:
    def test_checkpoint_is_loaded_with_its_log_directory(self, tmp_path):
        log = create_log(tmp_path, 2, 1)
        CLEANER_OFFSETS.write(tmp_path, {log.partition: 2})
        schedule = LogCleanerManager()
        schedule.load_checkpoint(tmp_path)
        assert schedule.last_clean_offset(log) == 2

    def test_damaged_checkpoint_is_reported_and_everything_is_dirty(self, tmp_path):
        log = create_log(tmp_path, 2, 1)
        (tmp_path / "cleaner-offset-checkpoint").write_text("0\n7\n")
        schedule = LogCleanerManager()
        assert "cleaner-offset-checkpoint:2" in str(schedule.load_checkpoint(tmp_path))
        assert schedule.last_clean_offset(log) is None

    def test_cleaned_offset_is_in_the_checkpoint(self, tmp_path, schedule):
        log = create_log(tmp_path, 2, 1)
        schedule.grab_filthiest_compacted_log([log], now_ms=NOW_MS)
        schedule.done_cleaning(log, 2)
        assert schedule.checkpoint_offsets(tmp_path) == {log.partition: 2}

    def test_truncation_lowers_the_checkpoint(self, tmp_path, schedule):
        log = create_log(tmp_path, 2, 1)
        schedule.update_checkpoint(log, 3)
        schedule.maybe_truncate_checkpoint(log, log.log_end_offset)
        assert schedule.last_clean_offset(log) == 3
        log.log_end_offset = 1
        schedule.maybe_truncate_checkpoint(log, log.log_end_offset)
        assert schedule.last_clean_offset(log) == 1

    def test_checkpoint_entry_moves_with_the_log(self, tmp_path, schedule):
        log = create_log(tmp_path, 2, 1)
        other = tmp_path / "other"
        schedule.update_checkpoint(log, 2)
        schedule.alter_checkpoint_dir(log.partition, source=tmp_path, target=other)
        assert schedule.checkpoint_offsets(tmp_path) == {}
        assert schedule.checkpoint_offsets(other) == {log.partition: 2}

    def test_deleted_log_is_removed_from_the_checkpoint(self, tmp_path, schedule):
        log = create_log(tmp_path, 2, 1)
        schedule.update_checkpoint(log, 2)
        schedule.remove_partition(log.partition)
        assert schedule.checkpoint_offsets(tmp_path) == {}

    def test_failed_log_directory_has_no_checkpoint(self, tmp_path, schedule):
        log = create_log(tmp_path, 2, 1)
        schedule.update_checkpoint(log, 2)
        schedule.handle_log_dir_failure(tmp_path)
        assert schedule.checkpoint_offsets(tmp_path) == {}
