"""Chooses the next log to compact and the offset range to clean.

Kafka: LogCleanerManager.

    dirty            starts at the offset in the cleaner checkpoint: the end of the last compaction
    uncleanable      starts at the lowest of: the last stable offset, the active segment, the
                     recovery point, the first segment with a record younger than
                     ``min.compaction.lag.ms``; rounded down to the start of a segment
    due              a log whose dirty share of the bytes exceeds ``min.cleanable.dirty.ratio``, or
                     with dirty records older than ``max.compaction.lag.ms``

The manager takes the dirtiest of the logs that are due.  A checkpoint below the log start offset or
above the log end offset is wrong because the log was truncated; then the whole log counts as dirty.
A damaged log that could not be compacted is skipped until it is deleted or the broker restarts.

Retention deletes segments only while no compaction runs on the log, so it registers here too.  This
holds for all logs, because the cleanup policy may have changed to ``delete`` during a compaction.

Owner: the event loop; the result of ``checkpoint_offsets`` may be written on a disk thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from odradek.protocol.types import TopicPartition
from odradek.storage.checkpoint import CorruptCheckpoint
from odradek.storage.cleaner.log_cleaning_state import IDLE, PAUSED, LogCleaningStates
from odradek.storage.cleaner.task import CleanableLog
from odradek.storage.log_segment import LogSegment
from odradek.storage.offset_checkpoints import CLEANER_OFFSETS
from odradek.storage.segment_roll import get_first_batch_timestamp
from odradek.storage.settings import NEVER


class OffsetsToClean(NamedTuple):
    """The offset range to clean.  Kafka: OffsetsToClean.

    ``force_update_checkpoint`` is set if the checkpoint was wrong.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int
    force_update_checkpoint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToClean:
    """A candidate for compaction, up to ``first_uncleanable_offset``, where a segment starts.

    Kafka: LogToClean.
    """

    partition: TopicPartition
    log_dir: Path  # the log directory of the log
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int  # time since max.compaction.lag.ms has passed; 0 if it has not
    min_cleanable_ratio: float
    force_update_checkpoint: bool = False

    @property
    def cleanable_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        return self.cleanable_bytes > 0 and (
            self.compaction_delay_ms > 0 or self.cleanable_ratio > self.min_cleanable_ratio
        )


def cleanable_offsets(
    log: CleanableLog, *, last_clean_offset: int | None, now_ms: int
) -> OffsetsToClean:
    first_dirty = log.log_start_offset if last_clean_offset is None else last_clean_offset
    is_reset = not log.log_start_offset <= first_dirty <= log.log_end_offset
    if is_reset:
        first_dirty = log.log_start_offset
    # Recovery after a crash may need unflushed records exactly as they were written.
    first_uncleanable = min(
        log.last_stable_offset, log.segments.active.base_offset, log.recovery_point
    )
    lag_ms = log.settings.min_compaction_lag_ms
    if lag_ms > 0:
        young = (
            segment.base_offset
            for segment in _sealed_segments_from(log, first_dirty)
            if segment.max_timestamp_and_offset.timestamp > now_ms - lag_ms
        )
        first_uncleanable = min(first_uncleanable, next(young, first_uncleanable))
    return OffsetsToClean(first_dirty, max(first_dirty, first_uncleanable), is_reset)


def build_log_to_clean(
    log: CleanableLog, *, last_clean_offset: int | None, now_ms: int
) -> LogToClean:
    first_dirty, first_uncleanable, is_reset = cleanable_offsets(
        log, last_clean_offset=last_clean_offset, now_ms=now_ms
    )
    end_segment = log.segments.floor_segment(first_uncleanable) or log.segments.first
    end_offset = end_segment.base_offset
    clean_bytes = dirty_bytes = 0
    dirty_from = (log.segments.floor_segment(first_dirty) or log.segments.first).base_offset
    for segment in log.segments:
        if segment.base_offset < min(dirty_from, end_offset):
            clean_bytes += segment.size_bytes
        elif segment.base_offset < end_offset:
            dirty_bytes += segment.size_bytes
    return LogToClean(
        partition=log.partition,
        log_dir=log.directory.parent,
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=end_offset,
        clean_bytes=clean_bytes,
        cleanable_bytes=dirty_bytes,
        compaction_delay_ms=_compaction_delay_ms(log, first_dirty, now_ms),
        min_cleanable_ratio=log.settings.min_cleanable_dirty_ratio,
        force_update_checkpoint=is_reset,
    )


def _compaction_delay_ms(log: CleanableLog, first_dirty_offset: int, now_ms: int) -> int:
    lag_ms = log.settings.max_compaction_lag_ms
    if lag_ms == NEVER:
        return 0
    timestamps = [
        get_first_batch_timestamp(segment)
        for segment in _sealed_segments_from(log, first_dirty_offset)
    ]
    earliest = min((timestamp for timestamp in timestamps if timestamp > 0), default=now_ms)
    return max(0, now_ms - lag_ms - earliest)


def _sealed_segments_from(log: CleanableLog, offset: int) -> list[LogSegment]:
    active = log.segments.active
    return [segment for segment in log.segments.from_offset(offset) if segment is not active]


AnyLog = TypeVar("AnyLog", bound=CleanableLog)


class LogCleanerManager:
    """Schedules compactions and tracks how far each log is compacted."""

    def __init__(self) -> None:
        self.states = LogCleaningStates()
        self._last_clean_offsets: dict[Path, dict[TopicPartition, int]] = {}
        self._uncleanable_partitions: set[TopicPartition] = set()
        #: Log directories with a running compaction or segment deletion.  A future log and the
        #: current log of a partition share one state.
        self._in_progress_dirs: dict[TopicPartition, list[Path]] = {}
        #: Maximum over all candidates of the last choice, whether due or not.
        self.dirtiest_ratio = 0.0
        self.max_compaction_delay_ms = 0

    def load_checkpoint(self, log_dir: Path) -> CorruptCheckpoint | None:
        """Read the checkpoint of a log directory.  If it is corrupt, all its logs are dirty."""
        self._last_clean_offsets[log_dir] = {}
        try:
            self._last_clean_offsets[log_dir] = CLEANER_OFFSETS.read(log_dir)
        except CorruptCheckpoint as error:
            return error
        return None

    def retain_partitions(self, log_dir: Path, partitions: Collection[TopicPartition]) -> None:
        """Drop the checkpoint entries of partitions that are not in the directory."""
        offsets = self._last_clean_offsets[log_dir]
        retained = {name: offset for name, offset in offsets.items() if name in partitions}
        self._last_clean_offsets[log_dir] = retained

    def handle_log_dir_failure(self, log_dir: Path) -> None:
        """Drop the checkpoint of an offline directory and end all cleaning in it.

        The callers must not report the end of that cleaning.
        """
        self._last_clean_offsets.pop(log_dir, None)
        for partition in [name for name, dirs in self._in_progress_dirs.items() if log_dir in dirs]:
            self._mark_done(partition, log_dir)

    def last_clean_offset(self, log: CleanableLog) -> int | None:
        """Return the offset up to which the log is compacted; None if it never was."""
        return self._last_clean_offsets.get(log.directory.parent, {}).get(log.partition)

    def checkpoint_offsets(self, log_dir: Path) -> dict[TopicPartition, int]:
        """Return the current content for the checkpoint file of the directory."""
        return dict(self._last_clean_offsets.get(log_dir, {}))

    @property
    def uncleanable_partitions(self) -> frozenset[TopicPartition]:
        return frozenset(self._uncleanable_partitions)

    # Compaction

    def grab_filthiest_compacted_log(
        self, logs: Iterable[CleanableLog], *, now_ms: int
    ) -> LogToClean | None:
        """Start compaction of the dirtiest log that is due.

        ``done_cleaning``, ``on_cleaning_aborted`` or ``mark_partition_uncleanable`` ends it.
        """
        candidates = (self.log_to_clean(log, now_ms=now_ms) for log in logs)
        return self.grab_filthiest([candidate for candidate in candidates if candidate is not None])

    def log_to_clean(self, log: CleanableLog, *, now_ms: int) -> LogToClean | None:
        """Return None if the log is not compacted or cannot be cleaned now.  Reads from disk."""
        if not log.settings.is_compacted or not self._is_cleanable(log.partition):
            return None
        candidate = build_log_to_clean(
            log, last_clean_offset=self.last_clean_offset(log), now_ms=now_ms
        )
        if candidate.force_update_checkpoint:
            self.update_checkpoint(log, candidate.first_dirty_offset)
        return candidate

    def grab_filthiest(self, logs_to_clean: Sequence[LogToClean]) -> LogToClean | None:
        """Do the same as ``grab_filthiest_compacted_log`` for computed candidates."""
        self.dirtiest_ratio = max(
            (candidate.cleanable_ratio for candidate in logs_to_clean), default=0.0
        )
        self.max_compaction_delay_ms = max(
            (candidate.compaction_delay_ms for candidate in logs_to_clean), default=0
        )
        due = [candidate for candidate in logs_to_clean if candidate.is_due]
        if not due:
            return None
        filthiest = max(due, key=lambda candidate: candidate.cleanable_ratio)
        self._mark_in_progress(filthiest.partition, filthiest.log_dir)
        return filthiest

    def done_cleaning(self, log: CleanableLog, end_offset: int) -> None:
        """The new segments are in place and compacted up to ``end_offset``."""
        self.update_checkpoint(log, end_offset)
        self._mark_done(log.partition, log.directory.parent)

    def on_cleaning_aborted(self, log: CleanableLog) -> None:
        """Compaction was aborted.  The log is unchanged, or some segments are already replaced."""
        self._mark_done(log.partition, log.directory.parent)

    def mark_partition_uncleanable(self, log: CleanableLog) -> None:
        """The log is damaged.  It is not compacted again."""
        self._uncleanable_partitions.add(log.partition)
        self._mark_done(log.partition, log.directory.parent)

    def is_cleaning_in_progress(self, log: CleanableLog) -> bool:
        """Return whether the log is being compacted or its old segments are being deleted."""
        return log.directory.parent in self._in_progress_dirs.get(log.partition, ())

    # Retention

    def begin_retention(self, logs: Iterable[AnyLog]) -> list[AnyLog]:
        """Return the logs whose old segments may be deleted until ``end_retention``."""
        free = [log for log in logs if self._can_delete_segments(log)]
        for log in free:
            self._mark_in_progress(log.partition, log.directory.parent)
        return free

    def end_retention(self, logs: Iterable[CleanableLog]) -> None:
        for log in logs:
            self._mark_done(log.partition, log.directory.parent)

    def _can_delete_segments(self, log: CleanableLog) -> bool:
        if log.settings.is_compacted:
            return self._is_cleanable(log.partition)
        return self.states[log.partition] is IDLE

    # Pausing, truncation, deletion and moves

    def pause(self, partition: TopicPartition) -> bool:
        """Return True if the log is paused now.

        If False, the running task must stop first; the log is paused when it ends.
        """
        self.states.pause(partition)
        return self.states[partition] is PAUSED

    def resume(self, partition: TopicPartition) -> None:
        self.states.resume(partition)

    def maybe_truncate_checkpoint(self, log: CleanableLog, offset: int) -> None:
        """The log was truncated to ``offset``: later records are dirty."""
        checkpoint = self.last_clean_offset(log)
        if checkpoint is not None and checkpoint > offset:
            self.update_checkpoint(log, offset)

    def alter_checkpoint_dir(
        self, partition: TopicPartition, *, source: Path, target: Path
    ) -> None:
        """The log has moved to another log directory."""
        offset = self._last_clean_offsets.get(source, {}).pop(partition, None)
        if offset is not None:
            self._last_clean_offsets.setdefault(target, {})[partition] = offset

    def remove_partition(self, partition: TopicPartition) -> None:
        """Forget a deleted partition, including its pauses, which need no ``resume``."""
        self.states.delete(partition)
        self._uncleanable_partitions.discard(partition)
        for offsets in self._last_clean_offsets.values():
            offsets.pop(partition, None)

    # Checkpoint

    def update_checkpoint(self, log: CleanableLog, offset: int) -> None:
        directory = log.directory.parent
        self._last_clean_offsets.setdefault(directory, {})[log.partition] = offset

    def _is_cleanable(self, partition: TopicPartition) -> bool:
        return self.states[partition] is IDLE and partition not in self._uncleanable_partitions

    def _mark_in_progress(self, partition: TopicPartition, log_dir: Path) -> None:
        in_progress_dirs = self._in_progress_dirs.setdefault(partition, [])
        if not in_progress_dirs:
            self.states.start(partition)
        in_progress_dirs.append(log_dir)

    def _mark_done(self, partition: TopicPartition, log_dir: Path) -> None:
        in_progress_dirs = self._in_progress_dirs[partition]
        in_progress_dirs.remove(log_dir)
        if not in_progress_dirs:
            del self._in_progress_dirs[partition]
            self.states.end(partition)
