"""A log gives the same results as a list model under any sequence of operations."""

import shutil
from typing import ClassVar

from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import invariant, precondition, rule
from hypothesis.strategies import booleans, integers, sampled_from

from odradek.protocol.errors import OffsetOutOfRange
from odradek.protocol.records.compression import Codec
from odradek.storage import timestamp_lookup
from odradek.storage.batch_scan import HEADERS_READ_BYTES
from odradek.storage.cleaner.log_cleaner_manager import LogCleanerManager
from odradek.storage.cleaner.offset_map import ENTRY_BYTES
from odradek.storage.log_truncation import truncate_to
from odradek.storage.retention import apply_retention
from odradek.storage.segment_deletion import delete_segment_files
from tests.support.faulty_disk import FaultyDisk
from tests.support.log_model_machine import (
    ALL_TIMESTAMPS,
    DELETE_RETENTION_MS,
    RECORDS,
    RETENTION_MS,
    SETTINGS,
    TIMESTAMPS,
    expect,
)
from tests.support.log_model_writers import TRANSACTIONAL, WriterRules
from tests.support.logs import NOW_MS, batches_from, records_from, recovered
from tests.support.read_committed import read_committed
from tests.support.stepwise_compaction import StepwiseCompaction

#: Number of compaction steps that a rule runs.
STEPS = sampled_from([0, 1, 2, 3, 4, 6, 100, 100, 100, 100])
WAIT_MS = sampled_from([0, 1, DELETE_RETENTION_MS, 2 * DELETE_RETENTION_MS])


class LogAgainstAList(WriterRules):
    @rule()
    def roll(self):
        self.log.roll(now_ms=NOW_MS)

    @rule()
    def flush(self):
        self.log.flush(now_ms=NOW_MS)

    # Truncation and deletion

    @rule(back=integers(0, 12))
    def truncate_end(self, back):
        model = self.model
        offset = max(model.start_offset, model.decided_end, model.end_offset - back)
        self.pause_compaction()
        # A gap at the end is not known after a restart, unless a segment begins there.
        # Pausing may have made staged segments part of the log, which limits the truncation.
        first = self.log.segments.first.base_offset
        offset = max(model.end_before(offset), model.decided_end, first)
        truncate_to(self.log, offset, now_ms=NOW_MS)
        self.resume_compaction(cut_at=self.log.log_end_offset)
        if offset == model.end_offset:
            return
        if model.decided_end:
            self.all_producers_are_in_batches = False
        model.truncate(offset)
        self.producers_were_read()
        self.look_around()

    @rule(producer_id=TRANSACTIONAL, records=RECORDS)
    def truncate_an_abort_marker(self, producer_id, records):
        """The aborted records may remain; their transaction is then open again."""
        self.append_in_a_transaction(producer_id, records, codec=Codec.NONE, bumps=False)
        self.end_a_transaction(producer_id, is_commit=False, bumps=False)
        self.truncate_end(back=1)

    @rule(forward=integers(0, 8))
    def delete_records(self, forward):
        offset = min(self.model.start_offset + forward, self.model.end_offset)
        if offset > self.model.high_watermark:
            expect(OffsetOutOfRange, lambda: self.log.maybe_increment_log_start_offset(offset))
            return
        assert self.log.maybe_increment_log_start_offset(offset) == (
            offset > self.model.start_offset
        )
        self.model.start_offset = offset
        self._retain(now_ms=0)

    @rule(later_ms=integers(0, 60))
    def delete_old_segments(self, later_ms):
        self._retain(now_ms=NOW_MS + later_ms)

    def _retain(self, now_ms):
        free = self.schedule.begin_retention([self.log])
        if free:
            self.model.start_offset = start_after_retention(self.log, now_ms)
            if apply_retention(self.log, now_ms=now_ms):
                self.all_producers_are_in_batches = False
            self.schedule.end_retention(free)

    # Compaction

    @precondition(lambda self: self.compaction is None)
    @rule(
        waited_ms=WAIT_MS,
        map_entries=sampled_from([1, 2, 4, 100]),
        segment_bytes=sampled_from([1, 1000, 2000]),
        is_from_scratch=booleans(),
        steps=STEPS,
    )
    def compact(self, waited_ms, map_entries, segment_bytes, is_from_scratch, steps):
        self.now_ms += waited_ms
        self.log.roll(now_ms=NOW_MS)
        self.log.flush(now_ms=NOW_MS)
        if is_from_scratch:
            self.schedule.update_checkpoint(self.log, self.log.log_start_offset)
        log_to_clean = self.schedule.grab_filthiest_compacted_log([self.log], now_ms=self.now_ms)
        if log_to_clean is None:
            return
        self.compaction = StepwiseCompaction(
            self.log, self.model, self.schedule, log_to_clean, self.now_ms
        )
        self.compaction.limit(
            segment_bytes_max=segment_bytes,
            dedupe_buffer_bytes=map_entries * ENTRY_BYTES,
            dedupe_load_factor=1.0,
        )
        self.continue_compaction(steps)

    @precondition(lambda self: self.compaction is None)
    @rule(waited_ms=WAIT_MS)
    def compact_at_once(self, waited_ms):
        self.compact(waited_ms, 100, 1000, is_from_scratch=False, steps=100)

    @precondition(lambda self: self.compaction is not None)
    @rule(steps=STEPS)
    def continue_compaction(self, steps):
        for _ in range(steps):
            if not self.compaction.step():
                delete_segment_files(self.compaction.old)
                self.compaction = None
                self.look_around()
                break

    @precondition(lambda self: self.compaction is not None)
    @rule(fail_at=integers(1, 60))
    def crash_while_compacting(self, fail_at):
        with FaultyDisk(fail_at=fail_at, persists=True) as disk:
            try:
                while self.compaction.step():
                    pass
            except OSError:
                assert disk.failed_calls
        self.reopen_after_a_crash(loses_checkpoints=True, back=0)

    # Restart and recovery

    @rule()
    def reopen_cleanly(self):
        if self.compaction is not None:
            self.stop_compacting()
        self.log.close(now_ms=NOW_MS)
        self.log = self.opened(log_start_offset=self.log.log_start_offset)
        self._restore(self.model.high_watermark)

    @rule(loses_checkpoints=booleans(), back=integers(0, 5))
    def reopen_after_a_crash(self, loses_checkpoints, back):
        """``back``: how far the high watermark advanced after its checkpoint was written."""
        if self.compaction is not None:
            self.compaction.crash()
            self.compaction = None
        cleaned_to = self.schedule.last_clean_offset(self.log)
        self.schedule = LogCleanerManager()
        if cleaned_to is not None and not loses_checkpoints:
            self.schedule.update_checkpoint(self.log, cleaned_to)
        recovery_point = 0 if loses_checkpoints else self.log.recovery_point
        self.log.close_handlers()
        self.log = self.opened(
            is_recovered=True,
            log_start_offset=self.log.log_start_offset,
            recovery_point=recovery_point,
        )
        self._restore(max(self.model.high_watermark - back, self.model.start_offset))

    def _restore(self, high_watermark):
        self.producers_were_read()
        self.replicate_to(high_watermark)
        self.follow()
        self.look_around()

    @precondition(lambda self: self.compaction is None and self.all_producers_are_in_batches)
    @rule()
    def recover_a_copy_without_snapshots(self):
        copy = shutil.copytree(self.directory, self.directory.with_name("copy-0"))
        for snapshot in copy.glob("*.snapshot"):
            snapshot.unlink()
        log = recovered(copy, log_start_offset=self.log.log_start_offset, **self.settings)
        forgotten = self.model.forgotten
        assert known_producers(log, but=forgotten) == known_producers(self.log, but=forgotten)
        undecided = self.log.producer_state_manager.transactions.first_undecided_offset
        assert log.producer_state_manager.transactions.first_undecided_offset == undecided
        log.close_handlers()
        shutil.rmtree(copy)

    # Reads and lookups

    @invariant()
    def offsets_agree(self):
        log, model = self.log, self.model
        assert (log.log_start_offset, log.log_end_offset) == (model.start_offset, model.end_offset)
        assert log.high_watermark == model.high_watermark
        assert log.last_stable_offset == model.last_stable_offset()

    @invariant()
    def records_agree(self):
        start, end = self.model.start_offset, self.model.end_offset
        assert records_from(self.log) == self.model.visible(start, end)
        assert read_committed(self.log, start, max_bytes=300) == self.model.committed(start)
        assert self.model.lasting_markers(self.now_ms) <= markers_in(self.log)

    @invariant()
    def epochs_agree(self):
        actual = self.model.with_batches(self.log.leader_epoch_cache.entries)
        assert actual == self.model.epochs()

    @rule(start=integers(0, 60), max_bytes=sampled_from([1, 200, 2000]))
    def read(self, start, max_bytes):
        start = max(self.model.start_offset, min(start, self.model.end_offset))
        end, stable = self.model.end_offset, self.log.last_stable_offset
        assert records_from(self.log, start) == self.model.visible(start, end)
        for bound in (self.model.high_watermark, stable):
            assert records_from(self.log, start, up_to=bound) == self.model.visible(start, bound)
        assert read_committed(self.log, start, max_bytes=max_bytes) == self.model.committed(start)

    @rule(start=integers(0, 60), length=integers(1, 30), timestamp=TIMESTAMPS)
    def look_up(self, start, length, timestamp):
        self._check_aborted(max(start, self.model.start_offset), length)
        self._check_timestamps([timestamp])

    @rule()
    def look_around(self):
        """Check all lookups at the offsets where a result may have changed."""
        self._check_timestamps(ALL_TIMESTAMPS)
        start, end = self.model.start_offset, self.model.end_offset
        self._check_aborted(start, end - start + 1)
        for segment in self.log.segments:
            offset = max(start, segment.base_offset - 1)
            self._check_aborted(offset, 1)
            if offset < end:
                assert records_from(self.log, offset, up_to=end) == self.model.visible(offset, end)

    def _check_aborted(self, start, length):
        actual = self.log.collect_aborted_transactions(start=start, end=start + length)
        self.model.check_aborted(actual, start=start, end=start + length)

    def _check_timestamps(self, timestamps):
        markers = markers_in(self.log)
        for timestamp in timestamps:
            offset = timestamp_lookup.offset_for_timestamp(self.log, timestamp)
            expected = self.model.first_at_or_after(timestamp, markers=markers)
            assert (None if offset is None else offset.offset) == expected
        largest = timestamp_lookup.offset_of_max_timestamp(self.log)
        expected = self.model.of_largest_timestamp(markers=markers)
        assert (None if largest is None else (largest.offset, largest.timestamp)) == expected


class LargeBatchesAgainstAList(LogAgainstAList):
    """Each batch has an index entry, so a lookup reads no earlier batch."""

    settings: ClassVar = SETTINGS | {"segment_bytes": 60_000}
    value_bytes = 2 * HEADERS_READ_BYTES + 1000


def known_producers(log, *, but):
    return {
        producer_id: (state.epoch, state.last_sequence, state.current_txn_first_offset)
        for producer_id, state in log.producer_state_manager.active_producers.items()
        if producer_id not in but
    }


def markers_in(log):
    """The offsets of the transaction markers in the log."""
    return {
        record.offset
        for batch in batches_from(log, log.log_start_offset)
        if batch.is_control
        for record in batch.records()
        if record.offset >= log.log_start_offset
    }


def start_after_retention(log, now_ms):
    """The log start offset after deleting segments that are old or lie before the start."""
    start = log.log_start_offset
    for segment in log.segments:
        following = log.segments.higher_segment(segment)
        end = log.log_end_offset if following is None else following.base_offset
        if end > log.high_watermark:
            break
        timestamps = [batch.max_timestamp for _, batch in segment.batches()]
        is_old = bool(timestamps) and now_ms - max(timestamps) > RETENTION_MS
        if not is_old and (following is None or end > start):
            break
        start = max(start, end)
    return start


LogAgainstAList.TestCase.settings = hypothesis_settings(stateful_step_count=50)
LargeBatchesAgainstAList.TestCase.settings = hypothesis_settings(stateful_step_count=50)
TestLogAgainstAList = LogAgainstAList.TestCase
TestLargeBatchesAgainstAList = LargeBatchesAgainstAList.TestCase
