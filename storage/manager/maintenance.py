"""What the logs need from time to time: syncing, retention, compaction, forgetting.

Everything is asked for by the caller, at times of its choosing, with the time as an argument.  What
fails takes its directory offline, and the rest goes on.  What finds no descriptor is left for the
next time.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from odradek.storage.cleaner.schedule import Candidate, CleanerSchedule
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.cleaner.task import cleaning_task
from odradek.storage.deletion import set_snapshots_aside
from odradek.storage.log import Log
from odradek.storage.log_segment import LogSegment
from odradek.storage.manager.compacting import Compaction
from odradek.storage.manager.directory import LogDirectoryOffline
from odradek.storage.manager.disk_work import DiskWork
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.registry import LogRegistry
from odradek.storage.manager.removal_queue import RemovalQueue
from odradek.storage.open_segments import OutOfDescriptors
from odradek.storage.retention import Outlived, files_aside, take_outlived

#: Of one log, or of all in a directory: the round goes on with the next.
REFUSALS = (LogDirectoryOffline, OutOfDescriptors)


class RetentionRound(NamedTuple):
    """What the logs have lost, and why; and the work that sets it aside."""

    outlived: list[Outlived]
    works: list[DiskWork]


class LogUpkeep:
    """Goes over all logs that can be used."""

    def __init__(self, logs: LogRegistry, cleaner: CleanerSchedule) -> None:
        self._logs = logs
        self._cleaner = cleaner
        self.removals = RemovalQueue()

    def flushes_due(self, now_ms: int) -> list[DiskWork]:
        """Of logs that have waited long enough, hold enough, or have begun another segment."""
        works = (self._flush_due(hosted, now_ms) for hosted in self._logs.usable)
        return [work for work in works if work is not None]

    def _flush_due(self, hosted: HostedLog, now_ms: int) -> DiskWork | None:
        log = hosted.log
        if log.recovery_point >= log.end_offset:
            return None
        if log.last_flush_ms is None:
            log.last_flush_ms = now_ms
        is_late = now_ms - log.last_flush_ms >= log.settings.flush_ms
        if is_late or hosted.has_flush_due_by_count:
            return hosted.plan_flush(now_ms=now_ms)
        sealed_up_to = log.segments.active.base_offset
        if log.recovery_point < sealed_up_to:
            return hosted.plan_flush(now_ms=now_ms, up_to=sealed_up_to)
        return None

    def apply_retention(self, now_ms: int) -> RetentionRound:
        """Take old segments out of the logs, where nobody else works on them.

        Until the work is done the logs must not be truncated, moved or deleted, and have to be
        paused for that, as if they were compacted.
        """
        hosts = {hosted.log: hosted for hosted in self._logs.usable}
        turn = self._cleaner.begin_retention(hosts)
        found: dict[Log, list[Outlived]] = {}
        try:
            for log in turn:
                if gone := self._taken(hosts[log], now_ms):
                    found[log] = gone
        finally:
            # The cleaner has heard of those that have failed.
            self._cleaner.end_retention(
                log for log in turn if log not in found and hosts[log].directory.is_online
            )
        kept = {log: gone for log, gone in found.items() if hosts[log].directory.is_online}
        return RetentionRound(
            [each for gone in kept.values() for each in gone],
            [self._setting_aside(hosts[log], gone, now_ms) for log, gone in kept.items()],
        )

    def _taken(self, hosted: HostedLog, now_ms: int) -> list[Outlived]:
        start_offset = hosted.log.start_offset
        with suppress(*REFUSALS), hosted as log, _left_as_found(log):
            return take_outlived(log, now_ms=now_ms)
        if hosted.log.start_offset != start_offset:
            # Some are out of the log, and nobody knows which.
            hosted.is_in_doubt = True
        return []

    def _setting_aside(self, hosted: HostedLog, gone: Sequence[Outlived], now_ms: int) -> DiskWork:
        segments = [each.segment for each in gone]
        step = files_aside(hosted.log, gone)
        hosted.is_shedding = True

        def ended(is_done: bool) -> None:
            if not hosted.directory.is_online:
                return
            if is_done and hosted.is_usable:
                with hosted as log:
                    set_snapshots_aside(segments, log.producers.snapshots)
                self.remove_later(hosted, segments, now_ms=now_ms)
            # If it was broken off, old files have their names still.
            hosted.is_in_doubt |= not is_done
            hosted.is_shedding = False
            self._cleaner.end_retention([hosted.log])

        return DiskWork(
            hosted.directory,
            f"setting old segments of {hosted.partition} aside",
            lambda: step,
            ended=ended,
            is_pointless=lambda: hosted.is_deleted,
        )

    def remove_later(
        self, hosted: HostedLog, segments: Sequence[LogSegment], *, now_ms: int
    ) -> None:
        """Segments that are out of the log and renamed, by whomever."""
        if segments:
            due_ms = now_ms + hosted.log.settings.file_delete_delay_ms
            self.removals.add_segments(hosted, segments, due_ms)

    def removals_due(self, now_ms: int) -> list[DiskWork]:
        return self.removals.take_due(now_ms)

    def next_compaction(self, now_ms: int, settings: CleanerSettings) -> Compaction | None:
        """Of the log that needs it most, which has begun: see compacting.py."""
        candidates = []
        for hosted in self._logs.usable:
            if hosted.is_future:
                continue
            with suppress(*REFUSALS), hosted as log, _left_as_found(log):
                found = self._cleaner.consider(log, now_ms=now_ms)
                if found is not None:
                    candidates.append(found)
        usable = [each for each in candidates if self._logs.current[each.partition].is_usable]
        chosen = self._cleaner.choose_among(usable)
        return None if chosen is None else self._compaction(chosen, settings, now_ms)

    def _compaction(
        self, chosen: Candidate, settings: CleanerSettings, now_ms: int
    ) -> Compaction | None:
        hosted = self._logs.current[chosen.partition]
        with suppress(*REFUSALS), hosted as log, _left_as_found(log):
            task = cleaning_task(
                log,
                settings,
                first_dirty_offset=chosen.first_dirty_offset,
                end_offset=chosen.end_offset,
                now_ms=now_ms,
            )
            return Compaction(hosted, task, self._cleaner, self.remove_later)
        if hosted.directory.is_online:
            self._cleaner.stopped(hosted.log)
        return None

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that have been silent for long; how many."""
        return sum(hosted.log.producers.expire(now_ms) for hosted in self._logs.usable)


@contextmanager
def _left_as_found(log: Log) -> Iterator[None]:
    """Close what is opened meanwhile: a look at idle logs must not cost three descriptors each."""
    closed = [segment for segment in log.segments if not segment.is_open]
    try:
        yield
    finally:
        for segment in closed:
            segment.abandon()
