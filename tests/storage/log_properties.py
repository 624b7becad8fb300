"""A log must answer as a list would, whatever happens to it."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.strategies import binary, booleans, integers, lists, none, sampled_from, tuples

from odradek.protocol.errors import OutOfOrderSequenceNumber
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.control import EndTransactionMarker, marker_batch
from odradek.protocol.records.record import Record
from odradek.storage import log_lookup
from odradek.storage.cleaner.offset_map import ENTRY_BYTES
from odradek.storage.cleaner.schedule import CleanerSchedule
from odradek.storage.deletion import remove
from odradek.storage.log_truncation import truncate
from odradek.storage.producers.append import AppendOrigin
from odradek.storage.retention import apply_retention
from tests.support.faulty_disk import FaultyDisk
from tests.support.log_model import LogModel, ModelBatch
from tests.support.logs import NOW_MS, PARTITION, batches_from, opened, records_from, recovered
from tests.support.read_committed import read_committed
from tests.support.stepwise_compaction import StepwiseCompaction

RETENTION_MS = 30
DELETE_RETENTION_MS = 100
SETTINGS = {
    "cleanup_policy": ("compact", "delete"),
    "segment_bytes": 500,
    "index_interval_bytes": 100,
    "segment_index_bytes": 240,
    "retention_ms": RETENTION_MS,
    "delete_retention_ms": DELETE_RETENTION_MS,
    "min_cleanable_dirty_ratio": 0.0,
}
IDEMPOTENT = sampled_from([1, 2])
TRANSACTIONAL = sampled_from([11, 12])
KEYS = sampled_from([b"a", b"b", b"c", b"key of sixteen b", b"a key that is too long for the map"])
TIMESTAMPS = integers(NOW_MS - 25, NOW_MS + 25)
RECORDS = lists(tuples(TIMESTAMPS, KEYS, none() | binary(max_size=60)), min_size=1, max_size=4)
#: Of a compaction.
STEPS = sampled_from([0, 1, 2, 3, 4, 6, 100, 100, 100, 100])
WAITED = sampled_from([0, 1, DELETE_RETENTION_MS, 2 * DELETE_RETENTION_MS])
CODECS = sampled_from([Codec.NONE, Codec.LZ4])


class LogAgainstAList(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.temporary = tempfile.TemporaryDirectory()
        self.directory = Path(self.temporary.name) / "events-0"
        self.model = LogModel()
        self.log = opened(self.directory, **SETTINGS)
        self.schedule = CleanerSchedule()
        self.compaction = None
        self.known_from = 0
        #: Else some are known from snapshots alone.
        self.all_producers_are_in_batches = True
        self.leader_epoch = 0
        self.now_ms = NOW_MS

    def teardown(self):
        self.log.abandon()
        self.temporary.cleanup()

    # Appending

    def _write(self, batch, origin=AppendOrigin.CLIENT):
        written = self.log.append_as_leader(
            batch, leader_epoch=self.leader_epoch, now_ms=NOW_MS, origin=origin
        )
        self.log.advance_high_watermark(self.log.end_offset)
        return written

    def _append(self, records, **fields):
        base = self.model.end_offset
        written = self._write(batch_of(records, **fields))
        assert (written.first_offset, written.is_duplicate) == (base, False)
        self.model.append(
            ModelBatch(
                tuple(Record(base + delta, *record) for delta, record in enumerate(records)),
                base,
                fields.get("producer_id", -1),
                fields.get("base_sequence", -1),
                fields.get("is_transactional", False),
                leader_epoch=self.leader_epoch,
            )
        )

    def _sequenced(self, producer_id, *, ahead=0):
        sequence = self.model.next_sequence(producer_id) + ahead
        return {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}

    @rule(batches=lists(RECORDS, min_size=1, max_size=5), codec=CODECS)
    def append_plainly(self, batches, codec):
        for records in batches:
            self._append(records, codec=codec)

    @rule(records=RECORDS)
    def append_as_a_new_leader(self, records):
        self.leader_epoch += 1
        self._append(records)

    @rule(producer_id=IDEMPOTENT, records=RECORDS)
    def append_with_a_sequence(self, producer_id, records):
        self._append(records, **self._sequenced(producer_id))

    @rule(producer_id=IDEMPOTENT, choice=integers(0, 4))
    def retry(self, producer_id, choice):
        kept = self.model.last_batches(producer_id)
        # What was deleted or compacted before the producers were last read from disk is forgotten,
        # except for the last batch of each, which snapshots hold.
        kept = [b for b in kept[:-1] if b.base_offset >= self.known_from] + kept[-1:]
        if not kept:
            return
        batch = kept[choice % len(kept)]
        records = [(record.timestamp, record.key, record.value) for record in batch.records]
        fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": batch.sequence}
        written = self._write(batch_of(records, **fields))
        assert written.is_duplicate
        assert (written.first_offset, written.last_offset) == (batch.base_offset, batch.last_offset)

    @rule(producer_id=IDEMPOTENT, gap=integers(1, 3))
    def skip_a_sequence(self, producer_id, gap):
        if not self.model.last_batches(producer_id):
            return
        fields = self._sequenced(producer_id, ahead=gap)
        try:
            self._write(batch_of([(NOW_MS, b"a", b"x")], **fields))
        except OutOfOrderSequenceNumber:
            return
        raise AssertionError("a gap in the sequence was accepted")

    @rule(producer_id=TRANSACTIONAL, records=RECORDS, codec=CODECS)
    def append_in_a_transaction(self, producer_id, records, codec):
        fields = self._sequenced(producer_id)
        self._append(records, codec=codec, is_transactional=True, **fields)

    @rule(producer_id=TRANSACTIONAL, commit=booleans())
    def end_a_transaction(self, producer_id, commit):
        base = self.model.end_offset
        marker = marker_batch(
            EndTransactionMarker(commit, 0),
            timestamp=NOW_MS,
            producer_id=producer_id,
            producer_epoch=0,
        )
        self._write(marker, AppendOrigin.COORDINATOR)
        self.model.append(
            ModelBatch(
                (Record(base, NOW_MS, None, None),),
                base,
                producer_id,
                ends="commit" if commit else "abort",
                leader_epoch=self.leader_epoch,
            )
        )

    @rule()
    def roll(self):
        self.log.roll(now_ms=NOW_MS)

    @rule()
    def flush(self):
        self.log.flush(now_ms=NOW_MS)

    # Cutting

    @rule(back=integers(0, 12))
    def cut_the_end(self, back):
        model = self.model
        offset = max(model.start_offset, model.decided_end, model.end_offset - back)
        if not self.schedule.pause(PARTITION):
            self._stop_compacting()
        # What was staged has become a part of the log, and decides what may be cut.
        offset = max(offset, model.decided_end)
        truncate(self.log, offset, now_ms=NOW_MS)
        self.schedule.truncated(self.log)
        self.schedule.resume(PARTITION)
        if model.decided_end and offset < model.end_offset:
            self.all_producers_are_in_batches = False
        model.truncate(offset)
        self._producers_were_read()

    @rule(forward=integers(0, 8))
    def delete_records(self, forward):
        offset = min(self.model.start_offset + forward, self.model.end_offset)
        self.log.advance_start(offset)
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

    # Compacting

    @precondition(lambda self: self.compaction is None)
    @rule(
        waited_ms=WAITED,
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
            self.schedule.cleaned_to(self.log, self.log.start_offset)
        chosen = self.schedule.choose([self.log], now_ms=self.now_ms)
        if chosen is None:
            return
        self.compaction = StepwiseCompaction(
            self.log, self.model, self.schedule, chosen, self.now_ms
        )
        self.compaction.limit(
            segment_bytes_max=segment_bytes,
            dedupe_buffer_bytes=map_entries * ENTRY_BYTES,
            dedupe_load_factor=1.0,
        )
        self.go_on_compacting(steps)

    @precondition(lambda self: self.compaction is None)
    @rule(waited_ms=WAITED)
    def compact_at_once(self, waited_ms):
        self.compact(waited_ms, 100, 1000, is_from_scratch=False, steps=100)

    @precondition(lambda self: self.compaction is not None)
    @rule(steps=STEPS)
    def go_on_compacting(self, steps):
        for _ in range(steps):
            if not self.compaction.step():
                remove(self.compaction.old)
                self.compaction = None
                break

    @precondition(lambda self: self.compaction is not None)
    @rule(at=integers(1, 60))
    def crash_while_compacting(self, at):
        with FaultyDisk(fail_at=at, persists=True) as disk:
            try:
                while self.compaction.step():
                    pass
            except OSError:
                assert disk.failed_calls
        self.reopen_after_a_crash(loses_checkpoints=True)

    def _stop_compacting(self):
        self.compaction.stop()
        self.compaction = None

    # Opening

    @rule()
    def reopen_cleanly(self):
        if self.compaction is not None:
            self._stop_compacting()
        self.log.close(now_ms=NOW_MS)
        self.log = opened(self.directory, start_offset=self.log.start_offset, **SETTINGS)
        self._producers_were_read()

    @rule(loses_checkpoints=booleans())
    def reopen_after_a_crash(self, loses_checkpoints):
        if self.compaction is not None:
            self.compaction.crash()
            self.compaction = None
        cleaned_to = self.schedule.checkpoint(self.log)
        self.schedule = CleanerSchedule()
        if cleaned_to is not None and not loses_checkpoints:
            self.schedule.cleaned_to(self.log, cleaned_to)
        recovery_point = 0 if loses_checkpoints else self.log.recovery_point
        self.log.abandon()
        self.log = recovered(
            self.directory,
            start_offset=self.log.start_offset,
            recovery_point=recovery_point,
            **SETTINGS,
        )
        self._producers_were_read()

    @precondition(lambda self: self.compaction is None and self.all_producers_are_in_batches)
    @rule()
    def recover_a_copy_without_snapshots(self):
        copy = shutil.copytree(self.directory, self.directory.with_name("copy-0"))
        for snapshot in copy.glob("*.snapshot"):
            snapshot.unlink()
        log = recovered(copy, start_offset=self.log.start_offset, **SETTINGS)
        assert known_producers(log) == known_producers(self.log)
        assert log.last_stable_offset == self.log.last_stable_offset
        log.abandon()
        shutil.rmtree(copy)

    def _producers_were_read(self):
        self.known_from = max(self.log.segments.first.base_offset, self.model.decided_end)

    # Asking

    @invariant()
    def the_ends_agree(self):
        log, model = self.log, self.model
        assert (log.start_offset, log.end_offset) == (model.start_offset, model.end_offset)
        assert log.last_stable_offset == model.last_stable_offset()

    @invariant()
    def all_records_are_there(self):
        start, end = self.model.start_offset, self.model.end_offset
        assert records_from(self.log) == self.model.visible(start, end)
        assert read_committed(self.log, start, max_bytes=300) == self.model.committed(start)
        assert self.model.lasting_markers(self.now_ms) <= markers_in(self.log)

    @invariant()
    def epochs_agree(self):
        found = [
            each for each in self.log.epochs.entries if each.start_offset < self.log.end_offset
        ]
        assert found == self.model.epochs()

    @rule(start=integers(0, 60), max_bytes=sampled_from([1, 200, 2000]))
    def read(self, start, max_bytes):
        start = max(self.model.start_offset, min(start, self.model.end_offset))
        end, stable = self.model.end_offset, self.log.last_stable_offset
        assert records_from(self.log, start) == self.model.visible(start, end)
        stable_records = records_from(self.log, start, up_to=stable) if start < stable else []
        assert stable_records == self.model.visible(start, stable)
        assert read_committed(self.log, start, max_bytes=max_bytes) == self.model.committed(start)

    @rule(start=integers(0, 60), length=integers(1, 30), timestamp=TIMESTAMPS)
    def look_up(self, start, length, timestamp):
        start = max(start, self.model.start_offset)
        found = self.log.aborted_transactions(start=start, end=start + length)
        self.model.check_aborted(found, start=start, end=start + length)
        at = log_lookup.first_at_or_after(self.log, timestamp)
        expected = self.model.first_at_or_after(timestamp, markers=markers_in(self.log))
        assert (None if at is None else at.offset) == expected


def batch_of(records, **fields):
    builder = BatchBuilder(BatchFields(**fields))
    for timestamp, key, value in records:
        builder.append(timestamp=timestamp, key=key, value=value)
    return builder.build()


def known_producers(log):
    return {
        producer_id: (state.epoch, state.last_sequence, state.transaction_first_offset)
        for producer_id, state in log.producers.states.items()
    }


def markers_in(log):
    """The offsets of the markers that are in the log."""
    return {
        record.offset
        for batch in batches_from(log, log.start_offset)
        if batch.is_control
        for record in batch.records()
        if record.offset >= log.start_offset
    }


def start_after_retention(log, now_ms):
    """Where the log starts once the segments that are old, or all before its start, are gone."""
    start = log.start_offset
    for segment in log.segments:
        following = log.segments.after(segment)
        end = log.end_offset if following is None else following.base_offset
        timestamps = [batch.max_timestamp for _, batch in segment.batches()]
        is_old = bool(timestamps) and now_ms - max(timestamps) > RETENTION_MS
        if not is_old and (following is None or end > start):
            break
        start = max(start, end)
    return start


LogAgainstAList.TestCase.settings = hypothesis_settings(stateful_step_count=50)
TestLogAgainstAList = LogAgainstAList.TestCase
