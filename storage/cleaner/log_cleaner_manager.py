"""Which log is compacted next, and up to where?

    dirty            from the cleaner's checkpoint on, which says how far compaction came last
    uncleanable      from the earliest of these on: the last stable offset, the active segment, the
                     first segment with a record younger than ``min.compaction.lag.ms``; rounded
                     down to the beginning of a segment
    due              a log whose dirty share of the bytes exceeds ``min.cleanable.dirty.ratio``, or
                     with dirty records older than ``max.compaction.lag.ms``

Of those that are due the dirtiest is taken.  A checkpoint before the start of the log, or beyond
its end, is wrong (the log was cut), and everything counts as dirty.  A log that could not be
compacted because it is damaged is left alone until it is deleted or the broker starts again.

Logs lose old segments only when no compaction runs on them, so retention asks here for its turn:
for all logs, since the policy of one that is being compacted may have become ``delete``.

Owner: the event loop; what ``offsets_in`` returns may be written on a disk thread.
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
    """What compaction may look at; ``is_reset`` if the checkpoint was wrong."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    force_update_checkpoint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToClean:
    """A log that could be compacted, up to ``end_offset``, where a segment begins."""

    partition: TopicPartition
    log_dir: Path  # the log directory that it is in
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int  # for how long it should have been compacted; 0 if it need not be
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
    # What is not synced yet may be needed as it is, to learn from it after a crash.
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
    """Who is compacted when, and how far compaction has come."""

    def __init__(self) -> None:
        self.states = LogCleaningStates()
        self._last_clean_offsets: dict[Path, dict[TopicPartition, int]] = {}
        self._uncleanable_partitions: set[TopicPartition] = set()
        #: In which log directories somebody works on a log: a copy on its way counts as the log.
        self._in_progress_dirs: dict[TopicPartition, list[Path]] = {}
        #: Of the dirtiest log when the last choice was made, whether it was due or not.
        self.dirtiest_ratio = 0.0
        self.max_compaction_delay_ms = 0

    def load_checkpoint(self, log_dir: Path) -> CorruptCheckpoint | None:
        """Read a log directory's checkpoint; a damaged one makes all its logs dirty."""
        self._last_clean_offsets[log_dir] = {}
        try:
            self._last_clean_offsets[log_dir] = CLEANER_OFFSETS.read(log_dir)
        except CorruptCheckpoint as error:
            return error
        return None

    def retain_partitions(self, log_dir: Path, partitions: Collection[TopicPartition]) -> None:
        """Only these are in the directory."""
        offsets = self._last_clean_offsets[log_dir]
        retained = {name: offset for name, offset in offsets.items() if name in partitions}
        self._last_clean_offsets[log_dir] = retained

    def handle_log_dir_failure(self, log_dir: Path) -> None:
        """The directory has failed: nothing is written there any more, and all work there is over.

        Nobody need report the end of it.
        """
        self._last_clean_offsets.pop(log_dir, None)
        for partition in [name for name, dirs in self._in_progress_dirs.items() if log_dir in dirs]:
            self._mark_done(partition, log_dir)

    def last_clean_offset(self, log: CleanableLog) -> int | None:
        """How far compaction of the log has come; None if it has never been compacted."""
        return self._last_clean_offsets.get(log.directory.parent, {}).get(log.partition)

    def checkpoint_offsets(self, log_dir: Path) -> dict[TopicPartition, int]:
        """What the directory's checkpoint should hold."""
        return dict(self._last_clean_offsets.get(log_dir, {}))

    @property
    def uncleanable_partitions(self) -> frozenset[TopicPartition]:
        return frozenset(self._uncleanable_partitions)

    # Compaction

    def grab_filthiest_compacted_log(
        self, logs: Iterable[CleanableLog], *, now_ms: int
    ) -> LogToClean | None:
        """Start on the dirtiest log that is due; ``cleaned``, ``stopped`` or ``failed`` ends it."""
        candidates = (self.log_to_clean(log, now_ms=now_ms) for log in logs)
        return self.grab_filthiest([candidate for candidate in candidates if candidate is not None])

    def log_to_clean(self, log: CleanableLog, *, now_ms: int) -> LogToClean | None:
        """None if the log is not compacted, or not now.  Reads the log's disk."""
        if not log.settings.is_compacted or not self._is_cleanable(log.partition):
            return None
        candidate = build_log_to_clean(
            log, last_clean_offset=self.last_clean_offset(log), now_ms=now_ms
        )
        if candidate.force_update_checkpoint:
            self.update_checkpoint(log, candidate.first_dirty_offset)
        return candidate

    def grab_filthiest(self, logs_to_clean: Sequence[LogToClean]) -> LogToClean | None:
        """As ``choose``, of those that have been considered."""
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
        """The new segments are in place; they are compacted up to ``end_offset``."""
        self.update_checkpoint(log, end_offset)
        self._mark_done(log.partition, log.directory.parent)

    def on_cleaning_aborted(self, log: CleanableLog) -> None:
        """Compaction was given up: the log is as it was, or a part of it is new."""
        self._mark_done(log.partition, log.directory.parent)

    def mark_partition_uncleanable(self, log: CleanableLog) -> None:
        """The log is damaged, and is not tried again."""
        self._uncleanable_partitions.add(log.partition)
        self._mark_done(log.partition, log.directory.parent)

    def is_cleaning_in_progress(self, log: CleanableLog) -> bool:
        """Whether it is being compacted, or old segments of it are being deleted."""
        return log.directory.parent in self._in_progress_dirs.get(log.partition, ())

    # Retention

    def begin_retention(self, logs: Iterable[AnyLog]) -> list[AnyLog]:
        """The logs of which old segments may be deleted until ``end_retention``."""
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

    # What happens to logs

    def pause(self, partition: TopicPartition) -> bool:
        """True if nobody works on the log; else whoever does must stop, and it is paused then."""
        self.states.pause(partition)
        return self.states[partition] is PAUSED

    def resume(self, partition: TopicPartition) -> None:
        self.states.resume(partition)

    def maybe_truncate_checkpoint(self, log: CleanableLog, offset: int) -> None:
        """What follows the offset is new, and dirty."""
        checkpoint = self.last_clean_offset(log)
        if checkpoint is not None and checkpoint > offset:
            self.update_checkpoint(log, offset)

    def alter_checkpoint_dir(
        self, partition: TopicPartition, *, source: Path, target: Path
    ) -> None:
        """The log is now in another log directory."""
        offset = self._last_clean_offsets.get(source, {}).pop(partition, None)
        if offset is not None:
            self._last_clean_offsets.setdefault(target, {})[partition] = offset

    def remove_partition(self, partition: TopicPartition) -> None:
        """All pauses are over too: there is nothing to resume."""
        self.states.delete(partition)
        self._uncleanable_partitions.discard(partition)
        for offsets in self._last_clean_offsets.values():
            offsets.pop(partition, None)

    # The checkpoint

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
