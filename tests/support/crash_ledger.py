"""What must be in the logs after a crash, known from what was told of each step before it.

After a kill everything that was done is there; of the step that was interrupted anything between
nothing and all of it.  After a power cut everything before a checkpointed recovery point is there,
and of the rest any part.  In both cases what is at an offset is what was appended there: no offset
has two values, and none that was promised to last is used again for another.

``check`` compares, and from then on takes what was found for what there is.

Owner: the test's thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from odradek.protocol.records.record import Record
from odradek.storage.unified_log import UnifiedLog
from tests.support.crash_host import COMPACTED, LOGS, CrashHost
from tests.support.crash_steps import Ends, Kind, Outcome, SentBatch, Step
from tests.support.log_model import LogModel, ModelBatch
from tests.support.log_survey import (
    FoundBatch,
    check_answers,
    check_epochs,
    check_retries,
    check_transactions,
    survey,
)


class Crash(Enum):
    KILL = "the process ends, the files stay as they are"
    POWER_CUT = "the files lose what was not synced"


#: Steps that may move the start of a log back, or forward.
LOWERS_START = {Kind.TRUNCATE, Kind.RESTART, Kind.RECREATE}
RAISES_START = {Kind.RETAIN, Kind.DELETE_RECORDS, Kind.RESTART}


@dataclass
class LogLedger:
    """One log, as its clients know it."""

    model: LogModel = field(default_factory=LogModel)
    synced_end: int = 0
    #: Where the log starts at least, by kind of crash.
    earliest_start: dict[Crash, int] = field(default_factory=lambda: dict.fromkeys(Crash, 0))
    #: Whether the start has been checkpointed: it then stays so, even if no segment begins earlier.
    has_start_line: bool = False
    compacted_before: int = 0
    #: A start that was not checkpointed is forgotten, but not by the epochs.
    epochs_from: int = 0
    before_gaps: dict[int, int] = field(default_factory=dict)

    def done(self, step: Step, outcome: Outcome, ends: Ends) -> None:
        model = self.model
        if step.kind is Kind.APPEND and step.batch is not None and not outcome.is_duplicate:
            if outcome.first_offset < model.end_offset:
                self.model = model = LogModel([], outcome.first_offset, outcome.first_offset)
                self.synced_end = outcome.first_offset
            model.append(as_appended(step.batch, outcome.first_offset))
        elif step.kind is Kind.TRUNCATE:
            model.truncate(step.offset)
            self._note_gap()
        elif step.kind is Kind.RESTART:
            self.model = model = LogModel([], step.offset, step.offset)
            self.synced_end = step.offset
        elif step.kind is Kind.RECREATE:
            self.__dict__.update(vars(LogLedger()))
            model = self.model
        elif step.kind in (Kind.RETAIN, Kind.DELETE_RECORDS):
            model.start_offset = ends.start_offset
        elif step.kind in (Kind.CHECKPOINT, Kind.CLOSE):
            self.synced_end = ends.recovery_point
            self.has_start_line = self.has_start_line or ends.start_offset > ends.first_segment
        assert (model.start_offset, model.end_offset) == (ends.start_offset, ends.end_offset), step
        self.epochs_from = min(max(self.epochs_from, ends.start_offset), ends.end_offset)
        self.synced_end = min(self.synced_end, model.end_offset)
        self._bound_start(ends, is_checkpointed=step.kind in (Kind.CHECKPOINT, Kind.CLOSE))

    def _bound_start(self, ends: Ends, *, is_checkpointed: bool) -> None:
        earliest = self.earliest_start
        earliest[Crash.KILL] = max(earliest[Crash.KILL], ends.first_segment)
        if is_checkpointed and self.has_start_line:
            earliest[Crash.KILL] = earliest[Crash.POWER_CUT] = ends.start_offset
        for crash in Crash:
            earliest[crash] = min(earliest[crash], ends.start_offset)

    def _note_gap(self) -> None:
        """A truncation may end in a gap, which leaves no trace: the log then ends before it."""
        history, start = self.model.history, self.model.start_offset
        before_gap = max([start, *(batch.last_offset + 1 for batch in history[-1:])])
        self.before_gaps[self.model.end_offset] = before_gap

    # After a crash

    def check(self, log: UnifiedLog, pending: Step | None, crash: Crash) -> None:
        found = survey(log)
        history = self._history_with(pending)
        self._check_start(log, pending, crash)
        self._check_end(log, found, pending, crash)
        must_survive = self._must_survive(log, pending, crash)
        if self._is_compacted(log):
            self._check_records(log, found, history, must_survive)
        else:
            _check_batches(log, found, history, must_survive)
        self._take_over(log, found, history)
        check_answers(log, found)
        check_epochs(log, found, start=max(log.log_start_offset, self.epochs_from))
        if self._is_compacted(log):
            self._check_committed(log, found)
        else:
            check_transactions(log, self.model)
        check_retries(log, self.model)

    def _is_compacted(self, log: UnifiedLog) -> bool:
        return log.partition == LOGS[COMPACTED]

    def _history_with(self, pending: Step | None) -> list[ModelBatch]:
        if pending is None or pending.kind is not Kind.APPEND or pending.batch is None:
            return self.model.history
        base_offset = pending.batch.base_offset
        base_offset = self.model.end_offset if base_offset is None else base_offset
        return [*self.model.history, as_appended(pending.batch, base_offset)]

    def _check_start(self, log: UnifiedLog, pending: Step | None, crash: Crash) -> None:
        kind = pending.kind if pending else None
        if not self._may_lower(pending):
            assert log.log_start_offset >= self.earliest_start[crash], (log, self.earliest_start)
        if kind not in RAISES_START:
            is_all_lost = crash is Crash.POWER_CUT and self.synced_end <= self.model.start_offset
            latest = self.model.end_offset if is_all_lost else self.model.start_offset
            assert log.log_start_offset <= latest, (log, latest)

    def _check_end(
        self, log: UnifiedLog, found: list[FoundBatch], pending: Step | None, crash: Crash
    ) -> None:
        least = self.model.end_offset if crash is Crash.KILL else self.synced_end
        least = self.before_gaps.get(least, least)
        most = self._history_with(pending)[-1:] or [None]
        most_end = max(self.model.end_offset, most[0].last_offset + 1 if most[0] else 0)
        if pending is not None and self._may_lower(pending):
            # Full truncation may leave nothing, not even where the log was to go on.
            is_cut = pending.kind is Kind.TRUNCATE
            least = min(least, self._end_after(pending)) if is_cut else 0
            most_end = max(most_end, self._end_after(pending))
        assert least <= log.log_end_offset <= most_end, (log, least, most_end)
        if found:
            is_after_last = log.log_end_offset == found[-1].last_offset + 1
            has_empty_segment = log.segments.active.size_bytes == 0
            assert is_after_last or has_empty_segment, (log, found[-1])

    def _may_lower(self, pending: Step | None) -> bool:
        """Whether the step may move the start of the log, or its end, back."""
        if pending is None or pending.kind is not Kind.APPEND or pending.batch is None:
            return pending is not None and pending.kind in LOWERS_START
        base_offset = pending.batch.base_offset
        return base_offset is not None and base_offset < self.model.end_offset

    def _end_after(self, pending: Step) -> int:
        if pending.batch is not None and pending.batch.base_offset is not None:
            return pending.batch.base_offset
        if pending.kind is not Kind.TRUNCATE:
            return max(0, pending.offset)
        after = LogModel(list(self.model.history), 0, self.model.end_offset)
        after.truncate(pending.offset)
        return after.end_offset

    def _must_survive(
        self, log: UnifiedLog, pending: Step | None, crash: Crash
    ) -> list[ModelBatch]:
        end = self.model.end_offset if crash is Crash.KILL else self.synced_end
        if pending is not None and pending.kind is Kind.TRUNCATE:
            end = min(end, pending.offset)
        elif self._may_lower(pending):
            end = 0
        return [
            batch
            for batch in self.model.history
            if batch.last_offset >= log.log_start_offset and batch.last_offset < end
        ]

    def _check_records(
        self,
        log: UnifiedLog,
        found: list[FoundBatch],
        history: list[ModelBatch],
        must_survive: list[ModelBatch],
    ) -> None:
        """Of a compacted log: records that have been superseded may be gone, and no others."""
        appended = records_of(history)
        there = records_of([each.batch for each in found])
        strays = [record for offset, record in there.items() if appended.get(offset) != record]
        assert not strays, f"{log} holds {strays}"
        aborted = LogModel(history, 0, 0).aborted(0, 1 << 62)
        committed = {record.offset for record in _committed(history, aborted)}
        latest = {record.key: offset for offset, record in there.items() if offset in committed}
        lost = [
            record
            for offset, record in records_of(must_survive).items()
            if offset not in there
            and not (offset < self.compacted_before and offset not in committed)
            and not offset < min(self.compacted_before, latest.get(record.key, 0))
        ]
        assert not lost, f"{log} has lost {lost}"

    def _check_committed(self, log: UnifiedLog, found: list[FoundBatch]) -> None:
        """For every key, its last record but those that readers are told to skip."""
        start, end = log.log_start_offset, log.log_end_offset
        aborted = [each[:3] for each in log.collect_aborted_transactions(start=start, end=end)]
        latest = _latest(_committed([each.batch for each in found], aborted), start)
        history = self.model.history
        expected = LogModel(history, 0, 0).aborted(start, end)
        assert latest == _latest(_committed(history, expected), start), log

    def _take_over(
        self, log: UnifiedLog, found: list[FoundBatch], history: list[ModelBatch]
    ) -> None:
        """What was found is what there is, and what was deleted is remembered."""
        there = {each.base_offset for each in found}
        first = log.segments.first.base_offset
        self.model.history = [
            batch for batch in history if batch.base_offset in there or batch.last_offset < first
        ]
        self.model.start_offset = log.log_start_offset
        self.model.end_offset = log.log_end_offset
        self.synced_end = min(self.synced_end, log.log_end_offset)
        for crash in Crash:
            self.earliest_start[crash] = min(self.earliest_start[crash], log.log_start_offset)


class Ledger:
    """All logs of a host, and the step that is under way."""

    def __init__(self) -> None:
        self.logs = [LogLedger() for _ in LOGS]
        self.pending: Step | None = None
        self.done_count = 0

    def begin(self, step: Step) -> None:
        assert self.pending is None, self.pending
        self.pending = step
        if step.kind is Kind.COMPACT:
            ledger = self.logs[step.log]
            ledger.compacted_before = max(ledger.compacted_before, step.offset)

    def done(self, step: Step, outcome: Outcome) -> None:
        assert step == self.pending, (step, self.pending)
        self.pending = None
        self.done_count += 1
        for number, ledger in enumerate(self.logs):
            if step.log in (-1, number):
                ledger.done(step, outcome, outcome.ends[number])

    def check(self, host: CrashHost, crash: Crash) -> None:
        """The host has been opened after the crash."""
        for number, ledger in enumerate(self.logs):
            pending = self.pending
            is_concerned = pending is not None and pending.log in (-1, number)
            ledger.check(host.log(number), pending if is_concerned else None, crash)
        self.pending = None


def as_appended(batch: SentBatch, base_offset: int) -> ModelBatch:
    """What the log holds of it."""
    if batch.ends:
        marker = Record(base_offset, batch.timestamp, None, None)
        return ModelBatch((marker,), base_offset, batch.producer_id, ends=batch.ends)
    keys = [key.encode() for key in batch.keys] or [None] * len(batch.values)
    records = tuple(
        Record(base_offset + delta, batch.timestamp, key, value.encode())
        for delta, (key, value) in enumerate(zip(keys, batch.values, strict=True))
    )
    return ModelBatch(
        records, base_offset, batch.producer_id, batch.sequence, batch.is_transactional
    )


def _check_batches(
    log: UnifiedLog,
    found: list[FoundBatch],
    history: list[ModelBatch],
    must_survive: list[ModelBatch],
) -> None:
    appended = {batch.base_offset: batch for batch in history}
    strays = [each for each in found if appended.get(each.base_offset) != each.batch]
    assert not strays, f"{log} holds {strays}"
    there = {each.base_offset for each in found}
    lost = [batch for batch in must_survive if batch.base_offset not in there]
    assert not lost, f"{log} has lost {lost}"


def records_of(batches: list[ModelBatch]) -> dict[int, Record]:
    return {
        record.offset: record for batch in batches if not batch.ends for record in batch.records
    }


Aborted = list[tuple[int, int, int]]


def _committed(batches: list[ModelBatch], aborted: Aborted) -> list[Record]:
    """The data records but those of transactions that were aborted."""
    return [
        record
        for batch in batches
        if not batch.ends
        for record in batch.records
        if not batch.is_transactional
        or not any(
            producer_id == batch.producer_id and first <= record.offset < last
            for producer_id, first, last in aborted
        )
    ]


def _latest(records: list[Record], start: int) -> dict[bytes | None, Record]:
    return {record.key: record for record in records if record.offset >= start}
