"""Short ways to fill logs with keyed records, to compact them and to look at what is left."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.record import Record
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage.cleaner.cleaner import clean
from odradek.storage.cleaner.log_cleaner_manager import build_log_to_clean
from odradek.storage.cleaner.segment_swap import swap_segments
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.cleaner.task import CleaningResult, CleaningTask, build_cleaning_task
from odradek.storage.cleaner.throttler import CleanerThrottler
from odradek.storage.segment_deletion import delete_segment_files
from odradek.storage.unified_log import UnifiedLog
from tests.support.logs import NOW_MS, batches_from
from tests.support.read_committed import committed_in

Pair = tuple[bytes | None, bytes | None]

CLEANER = CleanerSettings()


def append_pairs(log: UnifiedLog, *pairs: Pair, timestamp: int = NOW_MS, **fields: Any) -> int:
    """One batch of these keys and values; its first offset."""
    builder = BatchBuilder(BatchFields(**fields))
    for key, value in pairs:
        builder.append(timestamp=timestamp, key=key, value=value)
    written = log.append_as_leader(builder.build(), leader_epoch=0, now_ms=NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return written.first_offset


def sealed(log: UnifiedLog) -> UnifiedLog:
    """The same, synced, with an empty active segment: all of it may be compacted."""
    log.roll(now_ms=NOW_MS)
    log.flush(now_ms=NOW_MS)
    return log


def task_of(
    log: UnifiedLog,
    *,
    now_ms: int = NOW_MS,
    checkpoint: int | None = None,
    settings: CleanerSettings = CLEANER,
    **limits: Any,
) -> CleaningTask:
    """The compaction of all that may be, from ``checkpoint`` on; only what is synced may be."""
    if log.recovery_point < log.segments.active.base_offset:
        log.flush(now_ms=now_ms)
    found = build_log_to_clean(log, last_clean_offset=checkpoint, now_ms=now_ms)
    task = build_cleaning_task(
        log,
        settings,
        first_dirty_offset=found.first_dirty_offset,
        first_uncleanable_offset=found.first_uncleanable_offset,
        now_ms=now_ms,
    )
    return replace(task, config=replace(task.config, **limits))


def compact(log: UnifiedLog, pace: CleanerThrottler | None = None, **task: Any) -> CleaningResult:
    """Compact the log and put the new segments in place; the old ones are removed."""
    plan = clean(task_of(log, **task), pace)
    delete_segment_files(swap_segments(log, plan))
    return plan


def stored_batches(log: UnifiedLog) -> list[AnyBatch]:
    return batches_from(log, log.segments.first.base_offset)


def stored_records(log: UnifiedLog) -> list[Record]:
    """All data records, aborted or not."""
    return [
        record
        for batch in stored_batches(log)
        if not batch.is_control
        for record in batch.records()
    ]


def stored_pairs(log: UnifiedLog) -> dict[int, Pair]:
    """Key and value by offset."""
    return {record.offset: (record.key, record.value) for record in stored_records(log)}


def committed_records(log: UnifiedLog) -> list[Record]:
    """What a reader with read_committed sees, even beyond the last stable offset."""
    aborted = log.collect_aborted_transactions(start=0, end=log.log_end_offset)
    return list(committed_in(stored_batches(log), aborted))


def latest_pairs(pairs: Iterable[Pair]) -> dict[bytes, bytes | None]:
    """The last value of every key."""
    return {key: value for key, value in pairs if key is not None}


def base_offsets(log: UnifiedLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def until_stopped(after: int) -> Callable[[], bool]:
    """Says stop when asked for the ``after``-th time."""
    asked = 0

    def should_stop() -> bool:
        nonlocal asked
        asked += 1
        return asked >= after

    return should_stop


class PassingTime:
    """A clock that goes on only when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def clock(self) -> float:
        return self.now_s

    def sleep(self, pause_s: float) -> None:
        assert pause_s > 0, pause_s
        self.now_s += pause_s
