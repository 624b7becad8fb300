"""What the logs need from time to time: syncing, retention, compaction, forgetting.

Everything is asked for by the caller, at times of its choosing, with the time as an argument.  What
fails takes its directory offline, and the rest goes on.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from odradek.storage.cleaner.schedule import Candidate, CleanerSchedule
from odradek.storage.log import Log
from odradek.storage.log_segment import LogSegment
from odradek.storage.manager.directory import LogDirectoryOffline
from odradek.storage.manager.disk_work import DiskWork
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.registry import LogRegistry
from odradek.storage.manager.removal_queue import RemovalQueue
from odradek.storage.retention import Outlived, apply_retention


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

    def apply_retention(self, now_ms: int) -> list[Outlived]:
        """Set old segments aside; which, and why.  ``removals_due`` says when they are removed."""
        usable = self._logs.usable
        gone: list[Outlived] = []
        for hosted in usable:
            if not hosted.log.settings.is_compacted:
                gone += self._retain(hosted, now_ms)
        compacted = {
            hosted.partition: hosted
            for hosted in usable
            if hosted.log.settings.is_compacted and not hosted.is_future
        }
        free = self._cleaner.begin_retention(hosted.log for hosted in compacted.values())
        try:
            for log in free:
                gone += self._retain(compacted[log.partition], now_ms)
        finally:
            self._cleaner.end_retention(free)
        return gone

    def _retain(self, hosted: HostedLog, now_ms: int) -> list[Outlived]:
        with suppress(LogDirectoryOffline), hosted as log, _left_as_found(log):
            gone = apply_retention(log, now_ms=now_ms)
            self.remove_later(hosted, [each.segment for each in gone], now_ms=now_ms)
            return gone
        return []

    def remove_later(
        self, hosted: HostedLog, segments: Sequence[LogSegment], *, now_ms: int
    ) -> None:
        """Segments that are out of the log and renamed, by whomever."""
        if segments:
            due_ms = now_ms + hosted.log.settings.file_delete_delay_ms
            self.removals.add_segments(hosted, segments, due_ms)

    def removals_due(self, now_ms: int) -> list[DiskWork]:
        return self.removals.take_due(now_ms)

    def next_compaction(self, now_ms: int) -> Candidate | None:
        """The log that needs it most; the cleaner has been told that it begins."""
        candidates = []
        for hosted in self._logs.usable:
            if hosted.is_future:
                continue
            with suppress(LogDirectoryOffline), hosted as log, _left_as_found(log):
                found = self._cleaner.consider(log, now_ms=now_ms)
                if found is not None:
                    candidates.append(found)
        return self._cleaner.choose_among(candidates)

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that have been silent for long; how many."""
        return sum(hosted.log.producers.expire(now_ms) for hosted in self._logs.usable)


@contextmanager
def _left_as_found(log: Log) -> Iterator[None]:
    """Close what is opened meanwhile: a look at idle logs must not cost three descriptors each."""
    closed = [segment for segment in log.segments if not segment.is_open]
    yield
    for segment in closed:
        segment.abandon()
