"""Which log is compacted next, and up to where."""

import pytest

from odradek.protocol.types import TopicPartition
from odradek.storage.cleaner.schedule import CleanerSchedule, candidate, dirty_part
from odradek.storage.cleaner.states import IDLE, PAUSED, RUNNING, STOPPING
from odradek.storage.offset_checkpoints import CLEANER_OFFSETS
from tests.support.compaction import append_pairs, sealed
from tests.support.logs import NOW_MS, opened

HOUR_MS = 3_600_000


def log_of(directory, *segments, partition=0, **settings):
    """Segments of so many batches each, all of one size, the last of them the active one."""
    settings = {"cleanup_policy": ("compact",), **settings}
    log = opened(directory / f"events-{partition}", **settings)
    log.partition = TopicPartition("events", partition)
    for slot, count in enumerate(segments):
        if slot:
            sealed(log)
        for _ in range(count):
            append_pairs(log, (b"a", b"1"))
    return log


@pytest.fixture
def schedule(tmp_path):
    schedule = CleanerSchedule()
    assert schedule.open(tmp_path) is None
    return schedule


class TestDirtyPart:
    def test_without_a_checkpoint_all_but_the_active_segment_is_dirty(self, tmp_path):
        log = log_of(tmp_path, 2, 3, 1)
        assert dirty_part(log, checkpoint=None, now_ms=NOW_MS) == (0, 5, False)

    def test_what_was_compacted_is_clean(self, tmp_path):
        log = log_of(tmp_path, 2, 3, 1)
        assert dirty_part(log, checkpoint=2, now_ms=NOW_MS) == (2, 5, False)

    def test_nothing_from_the_high_watermark_on_is_cleanable(self, tmp_path):
        log = log_of(tmp_path, 2, 3, 1)
        log.advance_high_watermark(3)
        assert dirty_part(log, checkpoint=None, now_ms=NOW_MS) == (0, 3, False)

    def test_nothing_is_cleanable_that_is_not_synced(self, tmp_path):
        log = log_of(tmp_path, 2)
        sealed(log)
        append_pairs(log, (b"a", b"1"))
        log.roll(now_ms=NOW_MS)
        assert dirty_part(log, checkpoint=None, now_ms=NOW_MS) == (0, 2, False)

    def test_nothing_from_an_open_transaction_on_is_cleanable(self, tmp_path):
        log = log_of(tmp_path, 2)
        fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
        append_pairs(log, (b"a", b"1"), is_transactional=True, **fields)
        append_pairs(log, (b"a", b"1"))
        sealed(log)
        assert dirty_part(log, checkpoint=None, now_ms=NOW_MS) == (0, 2, False)

    @pytest.mark.parametrize(("age_ms", "expected"), [(999, 0), (1000, 5)])
    def test_segments_with_records_younger_than_the_lag_are_not_cleanable(
        self, tmp_path, age_ms, expected
    ):
        log = log_of(tmp_path, 2, 3, 1, min_compaction_lag_ms=1000)
        part = dirty_part(log, checkpoint=None, now_ms=NOW_MS + age_ms)
        assert part.first_uncleanable_offset == expected

    def test_the_first_young_segment_ends_the_cleanable_part(self, tmp_path):
        log = log_of(tmp_path, 2, min_compaction_lag_ms=1000)
        append_pairs(sealed(log), (b"a", b"1"), timestamp=NOW_MS + 500)
        append_pairs(sealed(log), (b"a", b"1"), timestamp=NOW_MS)
        sealed(log)
        assert dirty_part(log, checkpoint=0, now_ms=NOW_MS + 1200) == (0, 2, False)

    def test_segments_that_are_clean_are_not_asked_for_their_age(self, tmp_path):
        log = log_of(tmp_path, 2, 3, 1, min_compaction_lag_ms=1000)
        assert dirty_part(log, checkpoint=2, now_ms=NOW_MS).first_uncleanable_offset == 2

    def test_a_checkpoint_before_the_start_of_the_log_is_set_to_it(self, tmp_path):
        log = log_of(tmp_path, 2, 3, 1)
        log.advance_start(3)
        assert dirty_part(log, checkpoint=2, now_ms=NOW_MS) == (3, 5, True)

    def test_a_checkpoint_beyond_the_end_makes_everything_dirty(self, tmp_path):
        log = log_of(tmp_path, 2, 3, 1)
        assert dirty_part(log, checkpoint=6, now_ms=NOW_MS) == (6, 6, False)
        assert dirty_part(log, checkpoint=7, now_ms=NOW_MS) == (0, 5, True)


class TestCandidate:
    def test_the_ratio_is_that_of_the_dirty_bytes_to_all_that_could_be_read(self, tmp_path):
        log = log_of(tmp_path, 1, 3, 4)
        found = candidate(log, checkpoint=1, now_ms=NOW_MS)
        assert (found.first_dirty_offset, found.end_offset) == (1, 4)
        assert found.ratio == 0.75

    def test_only_whole_segments_are_compacted(self, tmp_path):
        log = log_of(tmp_path, 2, 3, 1)
        log.advance_high_watermark(4)
        found = candidate(log, checkpoint=0, now_ms=NOW_MS)
        assert (found.end_offset, found.dirty_bytes) == (2, log.segments.first.size_bytes)

    def test_a_segment_that_is_dirty_in_part_is_dirty(self, tmp_path):
        log = log_of(tmp_path, 2, 2, 1)
        found = candidate(log, checkpoint=3, now_ms=NOW_MS)
        assert (found.first_dirty_offset, found.end_offset, found.ratio) == (3, 4, 0.5)

    def test_an_empty_log_is_not_due(self, tmp_path):
        log = log_of(tmp_path, 0, min_cleanable_dirty_ratio=0.0)
        found = candidate(log, checkpoint=None, now_ms=NOW_MS)
        assert (found.ratio, found.is_due) == (0.0, False)

    def test_the_ratio_must_exceed_the_least(self, tmp_path):
        for least, is_due in ((0.75, False), (0.74, True)):
            log = log_of(tmp_path / str(least), 1, 3, 4, min_cleanable_dirty_ratio=least)
            assert candidate(log, checkpoint=1, now_ms=NOW_MS).is_due == is_due

    def test_a_record_older_than_the_longest_lag_makes_a_log_due(self, tmp_path):
        log = log_of(tmp_path, 3, 1, 1, max_compaction_lag_ms=HOUR_MS)
        punctual = candidate(log, checkpoint=3, now_ms=NOW_MS + HOUR_MS)
        late = candidate(log, checkpoint=3, now_ms=NOW_MS + HOUR_MS + 1)
        assert (punctual.delay_ms, punctual.is_due) == (0, False)
        assert (late.delay_ms, late.is_due) == (1, True)

    def test_a_late_log_that_cannot_be_compacted_is_not_due(self, tmp_path):
        log = log_of(tmp_path, 3, 1, max_compaction_lag_ms=HOUR_MS)
        log.advance_high_watermark(0)
        found = candidate(log, checkpoint=0, now_ms=NOW_MS + 2 * HOUR_MS)
        assert (found.delay_ms, found.is_due) == (HOUR_MS, False)

    def test_the_age_of_a_segment_is_found_again_after_a_restart(self, tmp_path):
        log = log_of(tmp_path, 3, 1, max_compaction_lag_ms=HOUR_MS)
        log.close(now_ms=NOW_MS)
        again = opened(log.directory, cleanup_policy=("compact",), max_compaction_lag_ms=HOUR_MS)
        assert candidate(again, checkpoint=0, now_ms=NOW_MS + HOUR_MS + 7).delay_ms == 7


class TestChoice:
    def test_the_dirtiest_log_that_is_due_is_taken(self, tmp_path, schedule):
        logs = [log_of(tmp_path, 2, 2, 1, partition=slot) for slot in range(3)]
        schedule.cleaned_to(logs[0], 4)
        schedule.cleaned_to(logs[1], 2)
        chosen = schedule.choose(logs, now_ms=NOW_MS)
        assert (chosen.partition, chosen.end_offset) == (logs[2].partition, 4)
        assert schedule.states[chosen.partition] is RUNNING
        assert schedule.dirtiest_ratio == 1.0

    def test_a_log_is_not_taken_twice(self, tmp_path, schedule):
        log = log_of(tmp_path, 2, 1)
        assert schedule.choose([log], now_ms=NOW_MS)
        assert schedule.choose([log], now_ms=NOW_MS) is None

    def test_logs_that_only_delete_are_never_taken(self, tmp_path, schedule):
        log = log_of(tmp_path, 2, 1, cleanup_policy=("delete",))
        assert schedule.choose([log], now_ms=NOW_MS) is None

    def test_a_compacted_log_is_clean_up_to_there(self, tmp_path, schedule):
        log = log_of(tmp_path, 2, 1)
        schedule.choose([log], now_ms=NOW_MS)
        schedule.cleaned(log, 2)
        assert schedule.checkpoint(log) == 2
        assert schedule.states[log.partition] is IDLE
        assert schedule.choose([log], now_ms=NOW_MS) is None

    def test_one_that_was_stopped_is_as_dirty_as_before(self, tmp_path, schedule):
        log = log_of(tmp_path, 2, 1)
        chosen = schedule.choose([log], now_ms=NOW_MS)
        schedule.stopped(log)
        assert schedule.choose([log], now_ms=NOW_MS) == chosen

    def test_one_that_failed_is_left_alone_until_it_is_deleted(self, tmp_path, schedule):
        log = log_of(tmp_path, 2, 1)
        schedule.choose([log], now_ms=NOW_MS)
        schedule.failed(log)
        assert schedule.uncleanable == {log.partition}
        assert schedule.choose([log], now_ms=NOW_MS) is None
        assert schedule.begin_retention([log]) == []
        schedule.deleted(log.partition)
        assert schedule.choose([log], now_ms=NOW_MS)

    def test_a_wrong_checkpoint_is_corrected(self, tmp_path, schedule):
        log = log_of(tmp_path, 2, 1)
        schedule.cleaned_to(log, 99)
        schedule.choose([log], now_ms=NOW_MS)
        assert schedule.checkpoint(log) == 0

    def test_the_longest_delay_is_told(self, tmp_path, schedule):
        log = log_of(tmp_path, 2, 1, max_compaction_lag_ms=HOUR_MS)
        schedule.choose([log], now_ms=NOW_MS + HOUR_MS + 5)
        assert schedule.longest_delay_ms == 5


class TestRetentionAndPauses:
    def test_retention_gets_the_logs_that_nobody_works_on_whatever_their_policy(
        self, tmp_path, schedule
    ):
        both = log_of(tmp_path, 2, 1, partition=0, cleanup_policy=("compact", "delete"))
        compacted = log_of(tmp_path, 2, 1, partition=1)
        deleting = log_of(tmp_path, 2, 1, partition=2, cleanup_policy=("delete",))
        busy = log_of(tmp_path, 2, 1, partition=3)
        schedule.choose([busy], now_ms=NOW_MS)
        busy.configure(deleting.settings)
        turn = schedule.begin_retention([both, compacted, deleting, busy])
        assert turn == [both, compacted, deleting]
        assert schedule.choose([both, compacted, deleting, busy], now_ms=NOW_MS) is None
        schedule.end_retention(turn)
        assert schedule.choose([both], now_ms=NOW_MS)

    def test_a_log_that_nobody_works_on_is_paused_at_once(self, tmp_path, schedule):
        log = log_of(tmp_path, 2, 1)
        assert schedule.pause(log.partition)
        assert schedule.choose([log], now_ms=NOW_MS) is None
        schedule.resume(log.partition)
        assert schedule.choose([log], now_ms=NOW_MS)

    def test_a_log_that_is_worked_on_is_paused_when_that_has_ended(self, tmp_path, schedule):
        log = log_of(tmp_path, 2, 1)
        schedule.choose([log], now_ms=NOW_MS)
        assert not schedule.pause(log.partition)
        assert schedule.states[log.partition] is STOPPING
        schedule.stopped(log)
        assert schedule.states[log.partition] is PAUSED

    def test_what_was_compacted_before_the_stop_was_noticed_counts(self, tmp_path, schedule):
        log = log_of(tmp_path, 2, 1)
        schedule.choose([log], now_ms=NOW_MS)
        schedule.pause(log.partition)
        schedule.cleaned(log, 2)
        assert schedule.checkpoint(log) == 2

    def test_a_log_and_its_copy_have_their_turn_together(self, tmp_path, schedule):
        log = log_of(tmp_path / "a", 2, 1)
        copy = log_of(tmp_path / "b", 2, 1)
        assert schedule.begin_retention([log, copy]) == [log, copy]
        schedule.end_retention([copy])
        assert schedule.states[log.partition] is RUNNING
        schedule.end_retention([log])
        assert schedule.states[log.partition] is IDLE

    def test_work_in_a_directory_that_fails_is_over(self, tmp_path, schedule):
        log = log_of(tmp_path, 2, 1)
        schedule.choose([log], now_ms=NOW_MS)
        assert not schedule.pause(log.partition)
        schedule.close(tmp_path)
        assert schedule.states[log.partition] is PAUSED

    def test_a_new_log_is_not_paused_because_a_deleted_one_was(self, tmp_path, schedule):
        log = log_of(tmp_path, 2, 1)
        schedule.pause(log.partition)
        schedule.deleted(log.partition)
        assert schedule.choose([log], now_ms=NOW_MS)


class TestCheckpoint:
    def test_it_is_read_when_a_directory_is_opened(self, tmp_path):
        log = log_of(tmp_path, 2, 1)
        CLEANER_OFFSETS.write(tmp_path, {log.partition: 2})
        schedule = CleanerSchedule()
        schedule.open(tmp_path)
        assert schedule.checkpoint(log) == 2

    def test_a_damaged_one_is_reported_and_everything_is_dirty(self, tmp_path):
        log = log_of(tmp_path, 2, 1)
        (tmp_path / "cleaner-offset-checkpoint").write_text("0\n7\n")
        schedule = CleanerSchedule()
        assert "cleaner-offset-checkpoint:2" in str(schedule.open(tmp_path))
        assert schedule.checkpoint(log) is None

    def test_what_was_compacted_is_to_be_written(self, tmp_path, schedule):
        log = log_of(tmp_path, 2, 1)
        schedule.choose([log], now_ms=NOW_MS)
        schedule.cleaned(log, 2)
        assert schedule.offsets_in(tmp_path) == {log.partition: 2}

    def test_truncation_takes_it_back(self, tmp_path, schedule):
        log = log_of(tmp_path, 2, 1)
        schedule.cleaned_to(log, 3)
        schedule.truncated(log, log.end_offset)
        assert schedule.checkpoint(log) == 3
        log.end_offset = 1
        schedule.truncated(log, log.end_offset)
        assert schedule.checkpoint(log) == 1

    def test_it_moves_with_the_log(self, tmp_path, schedule):
        log = log_of(tmp_path, 2, 1)
        other = tmp_path / "other"
        schedule.cleaned_to(log, 2)
        schedule.moved(log.partition, source=tmp_path, target=other)
        assert schedule.offsets_in(tmp_path) == {}
        assert schedule.offsets_in(other) == {log.partition: 2}

    def test_a_deleted_log_leaves_it(self, tmp_path, schedule):
        log = log_of(tmp_path, 2, 1)
        schedule.cleaned_to(log, 2)
        schedule.deleted(log.partition)
        assert schedule.offsets_in(tmp_path) == {}

    def test_nothing_is_written_to_a_directory_that_has_failed(self, tmp_path, schedule):
        log = log_of(tmp_path, 2, 1)
        schedule.cleaned_to(log, 2)
        schedule.close(tmp_path)
        assert schedule.offsets_in(tmp_path) == {}
