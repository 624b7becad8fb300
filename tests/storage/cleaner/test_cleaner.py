"""Cleaning of whole logs: segment groups, memory limits, errors and aborts."""

import pickle

import pytest

from odradek.protocol.errors import CorruptMessage
from odradek.storage import files
from odradek.storage.cleaner.cleaner import Cleaner, clean, remove_cleaned_files
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.cleaner.throttler import CleanerThrottler, LogCleaningAborted
from odradek.storage.paths import LogFileType
from tests.support.compaction import (
    PassingTime,
    append_pairs,
    base_offsets,
    compact,
    sealed,
    stored_pairs,
    task_of,
    until_stopped,
)
from tests.support.logs import NOW_MS, opened


@pytest.fixture
def log(tmp_path):
    return opened(tmp_path / "events-0", cleanup_policy=("compact",))


def cleaned_files(log):
    return [path.name for path in log.directory.iterdir() if path.name.endswith(".cleaned")]


class TestSegments:
    def fill(self, directory, *, rounds=8, **settings):
        log = opened(directory, segment_bytes=300, cleanup_policy=("compact",), **settings)
        for number in range(rounds):
            append_pairs(log, (b"a", bytes(100)), (b"%d" % number, bytes(30)))
        return sealed(log)

    def test_neighbouring_segments_are_merged_up_to_the_segment_size(self, tmp_path):
        log = self.fill(tmp_path / "events-0")
        assert base_offsets(log) == [0, 2, 4, 6, 8, 10, 12, 14, 16]
        compact(log, segment_bytes_max=640)
        assert base_offsets(log) == [0, 6, 12, 16]

    def test_unchanged_segment_is_not_replaced(self, tmp_path):
        log = self.fill(tmp_path / "events-0")
        first = compact(log, segment_bytes_max=1)
        second = clean(task_of(log, checkpoint=first.end_offset, segment_bytes_max=1))
        assert second.replacements == ()
        assert cleaned_files(log) == []

    def test_modification_time_is_that_of_the_last_segment(self, tmp_path):
        log = self.fill(tmp_path / "events-0")
        *_, last, _ = log.segments
        files.set_modified_ns(last.path(LogFileType.LOG), 10**18)
        compact(log, segment_bytes_max=10**6)
        assert log.segments.first.path(LogFileType.LOG).stat().st_mtime_ns == 10**18

    def test_full_index_gets_no_more_entries(self, tmp_path):
        directory = tmp_path / "events-0"
        self.fill(directory, index_interval_bytes=0).close(now_ms=NOW_MS)
        log = opened(
            directory, index_interval_bytes=0, segment_index_bytes=24, cleanup_policy=("compact",)
        )
        compact(log, segment_bytes_max=10**6, segment_config=log.segment_config)
        first = log.segments.first
        assert first.offset_index.entries.count <= 3
        assert first.time_index.last_entry.timestamp == NOW_MS
        assert sorted(stored_pairs(log)) == [1, 3, 5, 7, 9, 11, 13, 14, 15]

    def test_stats_count_records_and_bytes(self, log):
        append_pairs(log, (b"a", b"1"), (b"b", b"1"))
        append_pairs(log, (b"a", b"2"))
        size = log.size_bytes
        statistics = compact(sealed(log)).stats
        assert (statistics.records_read, statistics.records_written) == (3, 2)
        assert (statistics.map_records_read, statistics.map_bytes_read) == (3, size)
        assert statistics.bytes_read == size
        assert statistics.bytes_written == log.size_bytes


class TestMemory:
    def test_records_that_do_not_fit_the_offset_map_are_left_for_the_next_cleaning(self, log):
        for number in range(4):
            append_pairs(log, (b"%d" % number, b"1"))
        append_pairs(log, (b"0", b"2"))
        plan = compact(sealed(log), dedupe_buffer_bytes=2 * 156, dedupe_load_factor=1.0)
        assert plan.end_offset == 2
        assert list(stored_pairs(log)) == [0, 1, 2, 3, 4]
        plan = compact(log, checkpoint=2, dedupe_buffer_bytes=3 * 156, dedupe_load_factor=1.0)
        assert plan.end_offset == 5
        assert list(stored_pairs(log)) == [1, 2, 3, 4]

    def test_batch_with_more_keys_than_the_offset_map_is_processed_whole(self, log):
        append_pairs(log, *((b"%d" % number, b"1") for number in range(100)))
        append_pairs(log, (b"7", b"2"))
        plan = compact(sealed(log), dedupe_buffer_bytes=1)
        assert plan.end_offset == 100
        assert plan.stats.map_utilization == 100

    def test_batch_larger_than_the_io_buffer_is_read(self, log):
        append_pairs(log, (b"a", bytes(100_000)))
        append_pairs(log, (b"b", bytes(20)), (b"a", bytes(50_000)))
        compact(sealed(log), io_buffer_bytes=0)
        assert list(stored_pairs(log)) == [1, 2]


class TestTroubles:
    def fill(self, log):
        for number in range(20):
            append_pairs(log, (b"a", b"%d" % number), (b"b", bytes(100)))
        return sealed(log)

    @pytest.mark.parametrize("position", [30, 70, 2000])
    def test_damaged_batch_stops_the_cleaning_and_changes_nothing(self, log, position):
        path = self.fill(log).segments.first.path(LogFileType.LOG)
        content = bytearray(path.read_bytes())
        content[position] ^= 1
        path.write_bytes(content)
        before = {
            path_entry.name: path_entry.read_bytes() for path_entry in log.directory.iterdir()
        }
        with pytest.raises(CorruptMessage, match=path.name):
            clean(task_of(log))
        assert {
            path_entry.name: path_entry.read_bytes() for path_entry in log.directory.iterdir()
        } == before

    def test_damaged_transaction_index_stops_the_cleaning(self, log):
        self.fill(log).segments.first.path(LogFileType.TRANSACTION_INDEX).write_bytes(b"x" * 33)
        with pytest.raises(
            CorruptMessage, match="txnindex: transaction index failed its sanity check"
        ):
            clean(task_of(log))

    def test_batches_out_of_order_stop_the_cleaning(self, log):
        first, second = append_pairs(log, (b"a", b"1")), append_pairs(log, (b"b", b"1"))
        assert (first, second) == (0, 1)
        path = sealed(log).segments.first.path(LogFileType.LOG)
        content = path.read_bytes()
        half = len(content) // 2
        path.write_bytes(content[half:] + content[:half])
        with pytest.raises(CorruptMessage, match="batch ends at offset 0, expected at least 2"):
            clean(task_of(log))
        assert cleaned_files(log) == []

    def test_truncated_segment_stops_the_cleaning(self, log):
        path = self.fill(log).segments.first.path(LogFileType.LOG)
        task = task_of(log)
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(CorruptMessage):
            clean(task)

    @pytest.mark.parametrize("after", [1, 15, 30])
    def test_aborted_cleaning_leaves_no_files(self, log, after):
        task = task_of(self.fill(log))
        throttler = CleanerThrottler(should_abort=until_stopped(after), step_bytes=1)
        with pytest.raises(LogCleaningAborted):
            clean(task, throttler)
        assert cleaned_files(log) == []

    def test_cleaner_thread_keeps_to_its_share_of_the_io_rate(self, log):
        time = PassingTime()
        settings = CleanerSettings(io_max_bytes_per_second=2000.0, threads=2)
        task = task_of(self.fill(log), settings=settings)
        throttler = CleanerThrottler(clock=time.clock, sleep=time.sleep, step_bytes=1)
        statistics = clean(task, throttler).stats
        moved_bytes = statistics.map_bytes_read + statistics.bytes_read + statistics.bytes_written
        assert time.now_s == pytest.approx(moved_bytes / 1000, rel=0.01)

    def test_io_rate_without_a_sleep_function_is_an_error(self, log):
        settings = CleanerSettings(io_max_bytes_per_second=1000.0)
        with pytest.raises(AssertionError, match="no sleep function was passed in"):
            clean(task_of(self.fill(log), settings=settings), CleanerThrottler(step_bytes=1))

    def test_cleaned_files_of_an_earlier_cleaning_are_removed(self, log):
        self.fill(log)
        (log.directory / "00000000000000000000.log.cleaned").write_bytes(b"left behind")
        (log.directory / "00000000000000000000.txnindex.cleaned").write_bytes(b"left behind")
        compact(log)
        assert stored_pairs(log) == {38: (b"a", b"19"), 39: (b"b", bytes(100))}
        assert cleaned_files(log) == []

    def test_cleaned_files_can_be_discarded(self, log):
        clean(task_of(self.fill(log)))
        assert cleaned_files(log)
        remove_cleaned_files(log.directory)
        assert cleaned_files(log) == []

    def test_tasks_and_plans_survive_pickling(self, log):
        task = pickle.loads(pickle.dumps(task_of(self.fill(log))))
        plan = clean(task)
        assert pickle.loads(pickle.dumps(plan)) == plan


def test_segments_are_cleaned_one_at_a_time(tmp_path):
    log = TestSegments().fill(tmp_path / "events-0")
    for replacement in Cleaner(task_of(log, segment_bytes_max=1)).clean_segments():
        assert {name[:20] for name in cleaned_files(log)} == {f"{replacement.base_offset:020}"}
        remove_cleaned_files(log.directory)
