"""A log must answer as a list would, whatever happens to it."""

import tempfile
from pathlib import Path

from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.strategies import binary, booleans, integers, lists, sampled_from

from odradek.protocol.errors import OutOfOrderSequenceNumber
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.record import Record
from odradek.storage import log_lookup
from odradek.storage.log_truncation import truncate
from odradek.storage.retention import apply_retention
from tests.support.log_model import LogModel, ModelBatch
from tests.support.logs import (
    NOW_MS,
    append,
    end_transaction,
    opened,
    records_from,
    recovered,
)

SETTINGS = {"segment_bytes": 700, "index_interval_bytes": 100, "segment_index_bytes": 240}
IDEMPOTENT = sampled_from([1, 2])
TRANSACTIONAL = sampled_from([11, 12])
VALUES = lists(binary(min_size=1, max_size=60), min_size=1, max_size=4)
TIMESTAMPS = integers(NOW_MS - 25, NOW_MS + 25)


class LogAgainstAList(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.temporary = tempfile.TemporaryDirectory()
        self.directory = Path(self.temporary.name) / "events-0"
        self.model = LogModel()
        self.log = opened(self.directory, **SETTINGS)
        self.known_from = 0

    def teardown(self):
        self.log.abandon()
        self.temporary.cleanup()

    def _append(self, values, timestamp, **batch):
        base = self.model.end_offset
        written = append(self.log, *values, timestamp=timestamp, **batch)
        assert (written.first_offset, written.is_duplicate) == (base, False)
        return tuple(
            Record(base + delta, timestamp, None, value) for delta, value in enumerate(values)
        )

    @rule(values=VALUES, timestamp=TIMESTAMPS, codec=sampled_from([Codec.NONE, Codec.LZ4]))
    def append_plainly(self, values, timestamp, codec):
        base = self.model.end_offset
        records = self._append(values, timestamp, codec=codec)
        self.model.append(ModelBatch(records, base))

    @rule(producer_id=IDEMPOTENT, values=VALUES, timestamp=TIMESTAMPS)
    def append_with_a_sequence(self, producer_id, values, timestamp):
        base, sequence = self.model.end_offset, self.model.next_sequence(producer_id)
        records = self._append(
            values, timestamp, producer_id=producer_id, producer_epoch=0, base_sequence=sequence
        )
        self.model.append(ModelBatch(records, base, producer_id, sequence))

    @rule(producer_id=IDEMPOTENT, choice=integers(0, 4))
    def retry(self, producer_id, choice):
        kept = self.model.last_batches(producer_id)
        # What was deleted before the producers were last read from disk is forgotten, except for
        # the last batch of each, which snapshots hold.
        kept = [b for b in kept[:-1] if b.base_offset >= self.known_from] + kept[-1:]
        if not kept:
            return
        batch = kept[choice % len(kept)]
        values = [record.value for record in batch.records]
        written = append(
            self.log,
            *values,
            timestamp=batch.records[0].timestamp,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=batch.sequence,
        )
        assert written.is_duplicate
        assert (written.first_offset, written.last_offset) == (batch.base_offset, batch.last_offset)

    @rule(producer_id=IDEMPOTENT, gap=integers(1, 3))
    def skip_a_sequence(self, producer_id, gap):
        if not self.model.last_batches(producer_id):
            return
        sequence = self.model.next_sequence(producer_id) + gap
        try:
            append(
                self.log, b"x", producer_id=producer_id, producer_epoch=0, base_sequence=sequence
            )
        except OutOfOrderSequenceNumber:
            return
        raise AssertionError("a gap in the sequence was accepted")

    @rule(producer_id=TRANSACTIONAL, values=VALUES, timestamp=TIMESTAMPS)
    def append_in_a_transaction(self, producer_id, values, timestamp):
        base, sequence = self.model.end_offset, self.model.next_sequence(producer_id)
        records = self._append(
            values,
            timestamp,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=True,
        )
        self.model.append(ModelBatch(records, base, producer_id, sequence, is_transactional=True))

    @rule(producer_id=TRANSACTIONAL, commit=booleans())
    def end_a_transaction(self, producer_id, commit):
        base = self.model.end_offset
        end_transaction(self.log, producer_id=producer_id, commit=commit)
        marker = (Record(base, NOW_MS, None, None),)
        ends = "commit" if commit else "abort"
        self.model.append(ModelBatch(marker, base, producer_id, ends=ends))

    @rule()
    def roll(self):
        self.log.roll(now_ms=NOW_MS)

    @rule(back=integers(0, 12))
    def cut_the_end(self, back):
        offset = max(self.model.start_offset, self.model.end_offset - back)
        truncate(self.log, offset, now_ms=NOW_MS)
        self.model.truncate(offset)
        self.known_from = self.log.segments.first.base_offset

    @rule(forward=integers(0, 8))
    def delete_records(self, forward):
        offset = min(self.model.start_offset + forward, self.model.end_offset)
        self.log.advance_start(offset)
        self.model.start_offset = offset
        apply_retention(self.log, now_ms=0)

    @rule()
    def reopen_cleanly(self):
        self.log.close(now_ms=NOW_MS)
        self.log = opened(self.directory, start_offset=self.log.start_offset, **SETTINGS)
        self.known_from = self.log.segments.first.base_offset

    @rule()
    def reopen_after_a_crash(self):
        recovery_point = self.log.recovery_point
        self.log.abandon()
        self.log = recovered(
            self.directory,
            start_offset=self.log.start_offset,
            recovery_point=recovery_point,
            **SETTINGS,
        )
        self.known_from = self.log.segments.first.base_offset

    @rule()
    def flush(self):
        self.log.flush(now_ms=NOW_MS)

    @invariant()
    def the_ends_agree(self):
        assert (self.log.start_offset, self.log.end_offset) == (
            self.model.start_offset,
            self.model.end_offset,
        )
        assert self.log.last_stable_offset == self.model.last_stable_offset()

    @rule(start=integers(0, 60))
    def read(self, start):
        start = max(self.model.start_offset, min(start, self.model.end_offset))
        end = self.model.end_offset
        assert records_from(self.log, start) == self.model.visible(start, end)
        stable = self.log.last_stable_offset
        committed = records_from(self.log, start, up_to=stable) if start < stable else []
        assert committed == self.model.visible(start, stable)

    @rule(start=integers(0, 60), length=integers(1, 30))
    def ask_for_aborted_transactions(self, start, length):
        start = max(start, self.model.start_offset)
        found = self.log.aborted_transactions(start=start, end=start + length)
        assert [aborted[:3] for aborted in found] == self.model.aborted(start, start + length)

    @precondition(lambda self: self.model.start_offset < self.model.end_offset)
    @rule(timestamp=TIMESTAMPS)
    def look_up_a_timestamp(self, timestamp):
        found = log_lookup.first_at_or_after(self.log, timestamp)
        expected = self.model.first_at_or_after(timestamp)
        assert (None if found is None else found.offset) == expected


LogAgainstAList.TestCase.settings = hypothesis_settings(stateful_step_count=40)
TestLogAgainstAList = LogAgainstAList.TestCase
