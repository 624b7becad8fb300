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
from odradek.storage.checkpoint import CheckpointDamaged
from odradek.storage.cleaner.states import IDLE, PAUSED, CleaningStates
from odradek.storage.cleaner.task import CleanableLog
from odradek.storage.log_segment import LogSegment
from odradek.storage.offset_checkpoints import CLEANER_OFFSETS
from odradek.storage.rolling import first_timestamp
from odradek.storage.settings import NEVER


class DirtyPart(NamedTuple):
    """What compaction may look at; ``is_reset`` if the checkpoint was wrong."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    is_reset: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A log that could be compacted, up to ``end_offset``, where a segment begins."""

    partition: TopicPartition
    directory: Path  # the log directory that it is in
    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    delay_ms: int  # for how long it should have been compacted; 0 if it need not be
    min_ratio: float
    is_reset: bool = False

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        return self.dirty_bytes > 0 and (self.delay_ms > 0 or self.ratio > self.min_ratio)


def dirty_part(log: CleanableLog, *, checkpoint: int | None, now_ms: int) -> DirtyPart:
    first_dirty = log.start_offset if checkpoint is None else checkpoint
    is_reset = not log.start_offset <= first_dirty <= log.end_offset
    if is_reset:
        first_dirty = log.start_offset
    # What is not synced yet may be needed as it is, to learn from it after a crash.
    first_uncleanable = min(
        log.last_stable_offset, log.segments.active.base_offset, log.recovery_point
    )
    lag_ms = log.settings.min_compaction_lag_ms
    if lag_ms > 0:
        young = (
            segment.base_offset
            for segment in _sealed_from(log, first_dirty)
            if segment.largest.timestamp > now_ms - lag_ms
        )
        first_uncleanable = min(first_uncleanable, next(young, first_uncleanable))
    return DirtyPart(first_dirty, max(first_dirty, first_uncleanable), is_reset)


def candidate(log: CleanableLog, *, checkpoint: int | None, now_ms: int) -> Candidate:
    first_dirty, first_uncleanable, is_reset = dirty_part(log, checkpoint=checkpoint, now_ms=now_ms)
    holding = log.segments.holding(first_uncleanable) or log.segments.first
    end_offset = holding.base_offset
    clean_bytes = dirty_bytes = 0
    dirty_from = (log.segments.holding(first_dirty) or log.segments.first).base_offset
    for segment in log.segments:
        if segment.base_offset < min(dirty_from, end_offset):
            clean_bytes += segment.size_bytes
        elif segment.base_offset < end_offset:
            dirty_bytes += segment.size_bytes
    return Candidate(
        partition=log.partition,
        directory=log.directory.parent,
        first_dirty_offset=first_dirty,
        end_offset=end_offset,
        clean_bytes=clean_bytes,
        dirty_bytes=dirty_bytes,
        delay_ms=_delay_ms(log, first_dirty, now_ms),
        min_ratio=log.settings.min_cleanable_dirty_ratio,
        is_reset=is_reset,
    )


def _delay_ms(log: CleanableLog, first_dirty: int, now_ms: int) -> int:
    lag_ms = log.settings.max_compaction_lag_ms
    if lag_ms == NEVER:
        return 0
    timestamps = [first_timestamp(segment) for segment in _sealed_from(log, first_dirty)]
    earliest = min((each for each in timestamps if each > 0), default=now_ms)
    return max(0, now_ms - lag_ms - earliest)


def _sealed_from(log: CleanableLog, offset: int) -> list[LogSegment]:
    active = log.segments.active
    return [segment for segment in log.segments.from_offset(offset) if segment is not active]


AnyLog = TypeVar("AnyLog", bound=CleanableLog)


class CleanerSchedule:
    """Who is compacted when, and how far compaction has come."""

    def __init__(self) -> None:
        self.states = CleaningStates()
        self._offsets: dict[Path, dict[TopicPartition, int]] = {}
        self._uncleanable: set[TopicPartition] = set()
        #: In which log directories somebody works on a log: a copy on its way counts as the log.
        self._workplaces: dict[TopicPartition, list[Path]] = {}
        #: Of the dirtiest log when the last choice was made, whether it was due or not.
        self.dirtiest_ratio = 0.0
        self.longest_delay_ms = 0

    def open(self, directory: Path) -> CheckpointDamaged | None:
        """Read a log directory's checkpoint; a damaged one makes all its logs dirty."""
        self._offsets[directory] = {}
        try:
            self._offsets[directory] = CLEANER_OFFSETS.read(directory)
        except CheckpointDamaged as damage:
            return damage
        return None

    def forget_others(self, directory: Path, partitions: Collection[TopicPartition]) -> None:
        """Only these are in the directory."""
        offsets = self._offsets[directory]
        kept = {name: offset for name, offset in offsets.items() if name in partitions}
        self._offsets[directory] = kept

    def close(self, directory: Path) -> None:
        """The directory has failed: nothing is written there any more, and all work there is over.

        Nobody need report the end of it.
        """
        self._offsets.pop(directory, None)
        for partition in [name for name, at in self._workplaces.items() if directory in at]:
            self._end(partition, directory)

    def checkpoint(self, log: CleanableLog) -> int | None:
        """How far compaction of the log has come; None if it has never been compacted."""
        return self._offsets.get(log.directory.parent, {}).get(log.partition)

    def offsets_in(self, directory: Path) -> dict[TopicPartition, int]:
        """What the directory's checkpoint should hold."""
        return dict(self._offsets.get(directory, {}))

    @property
    def uncleanable(self) -> frozenset[TopicPartition]:
        return frozenset(self._uncleanable)

    # Compaction

    def choose(self, logs: Iterable[CleanableLog], *, now_ms: int) -> Candidate | None:
        """Start on the dirtiest log that is due; ``cleaned``, ``stopped`` or ``failed`` ends it."""
        considered = (self.consider(log, now_ms=now_ms) for log in logs)
        return self.choose_among([found for found in considered if found is not None])

    def consider(self, log: CleanableLog, *, now_ms: int) -> Candidate | None:
        """None if the log is not compacted, or not now.  Reads the log's disk."""
        if not log.settings.is_compacted or not self._is_free(log.partition):
            return None
        found = candidate(log, checkpoint=self.checkpoint(log), now_ms=now_ms)
        if found.is_reset:
            self.cleaned_to(log, found.first_dirty_offset)
        return found

    def choose_among(self, candidates: Sequence[Candidate]) -> Candidate | None:
        """As ``choose``, of those that have been considered."""
        self.dirtiest_ratio = max((each.ratio for each in candidates), default=0.0)
        self.longest_delay_ms = max((each.delay_ms for each in candidates), default=0)
        due = [each for each in candidates if each.is_due]
        if not due:
            return None
        chosen = max(due, key=lambda each: each.ratio)
        self._start(chosen.partition, chosen.directory)
        return chosen

    def cleaned(self, log: CleanableLog, end_offset: int) -> None:
        """The new segments are in place; they are compacted up to ``end_offset``."""
        self.cleaned_to(log, end_offset)
        self._end(log.partition, log.directory.parent)

    def stopped(self, log: CleanableLog) -> None:
        """Compaction was given up: the log is as it was, or a part of it is new."""
        self._end(log.partition, log.directory.parent)

    def failed(self, log: CleanableLog) -> None:
        """The log is damaged, and is not tried again."""
        self._uncleanable.add(log.partition)
        self._end(log.partition, log.directory.parent)

    def is_at_work_on(self, log: CleanableLog) -> bool:
        """Whether it is being compacted, or old segments of it are being deleted."""
        return log.directory.parent in self._workplaces.get(log.partition, ())

    # Retention

    def begin_retention(self, logs: Iterable[AnyLog]) -> list[AnyLog]:
        """The logs of which old segments may be deleted until ``end_retention``."""
        free = [log for log in logs if self._may_lose_segments(log)]
        for log in free:
            self._start(log.partition, log.directory.parent)
        return free

    def end_retention(self, logs: Iterable[CleanableLog]) -> None:
        for log in logs:
            self._end(log.partition, log.directory.parent)

    def _may_lose_segments(self, log: CleanableLog) -> bool:
        if log.settings.is_compacted:
            return self._is_free(log.partition)
        return self.states[log.partition] is IDLE

    # What happens to logs

    def pause(self, partition: TopicPartition) -> bool:
        """True if nobody works on the log; else whoever does must stop, and it is paused then."""
        self.states.pause(partition)
        return self.states[partition] is PAUSED

    def resume(self, partition: TopicPartition) -> None:
        self.states.resume(partition)

    def truncated(self, log: CleanableLog, offset: int) -> None:
        """What follows the offset is new, and dirty."""
        checkpoint = self.checkpoint(log)
        if checkpoint is not None and checkpoint > offset:
            self.cleaned_to(log, offset)

    def moved(self, partition: TopicPartition, *, source: Path, target: Path) -> None:
        """The log is now in another log directory."""
        offset = self._offsets.get(source, {}).pop(partition, None)
        if offset is not None:
            self._offsets.setdefault(target, {})[partition] = offset

    def deleted(self, partition: TopicPartition) -> None:
        """All pauses are over too: there is nothing to resume."""
        self.states.delete(partition)
        self._uncleanable.discard(partition)
        for offsets in self._offsets.values():
            offsets.pop(partition, None)

    # The checkpoint

    def cleaned_to(self, log: CleanableLog, offset: int) -> None:
        directory = log.directory.parent
        self._offsets.setdefault(directory, {})[log.partition] = offset

    def _is_free(self, partition: TopicPartition) -> bool:
        return self.states[partition] is IDLE and partition not in self._uncleanable

    def _start(self, partition: TopicPartition, directory: Path) -> None:
        places = self._workplaces.setdefault(partition, [])
        if not places:
            self.states.start(partition)
        places.append(directory)

    def _end(self, partition: TopicPartition, directory: Path) -> None:
        places = self._workplaces[partition]
        places.remove(directory)
        if not places:
            del self._workplaces[partition]
            self.states.end(partition)
