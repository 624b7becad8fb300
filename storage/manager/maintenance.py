"""Periodic tasks of the logs: flush, retention, compaction and producer expiration.

Kafka: the scheduled tasks of LogManager (flushDirtyLogs, cleanupLogs, deleteLogs) and LogCleaner.

The caller decides when to call each method, and passes in the time.  An error takes the directory
offline; the other logs are processed.  Logs for which no file descriptor is left are skipped until
the next call.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from odradek.storage.cleaner.log_cleaner_manager import LogCleanerManager, LogToClean
from odradek.storage.cleaner.settings import CleanerSettings
from odradek.storage.cleaner.task import build_cleaning_task
from odradek.storage.log_segment import LogSegment
from odradek.storage.manager.compaction import Compaction
from odradek.storage.manager.directory import LogDirectoryOffline
from odradek.storage.manager.disk_task import DiskTask
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.registry import LogRegistry
from odradek.storage.manager.removal_queue import RemovalQueue
from odradek.storage.open_segments import TooManyOpenFiles
from odradek.storage.retention import DeletableSegment, delete_old_segments, plan_file_deletion
from odradek.storage.segment_deletion import mark_snapshots_deleted
from odradek.storage.unified_log import UnifiedLog

#: Errors of one log or of all logs in a directory; the loop continues with the next log.
SKIPPABLE_ERRORS = (LogDirectoryOffline, TooManyOpenFiles)


class RetentionResult(NamedTuple):
    """The segments removed from the logs, each with its reason, and the tasks to rename them."""

    deletable_segments: list[DeletableSegment]
    tasks: list[DiskTask]


class LogMaintenanceTasks:
    """Creates the periodic tasks for all usable logs."""

    def __init__(self, logs: LogRegistry, cleaner_manager: LogCleanerManager) -> None:
        self._logs = logs
        self._cleaner_manager = cleaner_manager
        self.removals = RemovalQueue()

    def due_flush_tasks(self, now_ms: int) -> list[DiskTask]:
        """Return flush tasks for logs that are due by time or by count, or that have rolled."""
        tasks = (self._due_flush_task(hosted_log, now_ms) for hosted_log in self._logs.usable)
        return [task for task in tasks if task is not None]

    def _due_flush_task(self, hosted_log: HostedLog, now_ms: int) -> DiskTask | None:
        log = hosted_log.log
        if log.recovery_point >= log.log_end_offset:
            return None
        if log.last_flush_ms is None:
            log.last_flush_ms = now_ms
        is_late = now_ms - log.last_flush_ms >= log.settings.flush_ms
        if is_late or hosted_log.has_flush_due_by_count:
            return hosted_log.flush_task(now_ms=now_ms)
        sealed_up_to = log.segments.active.base_offset
        if log.recovery_point < sealed_up_to:
            return hosted_log.flush_task(now_ms=now_ms, flush_offset=sealed_up_to)
        return None

    def apply_retention(self, now_ms: int) -> RetentionResult:
        """Remove old segments from logs on which no compaction runs.

        Until the tasks are done, the logs must not be truncated, moved or deleted.  Pause them
        first, as for a compaction.
        """
        hosted_logs = {hosted_log.log: hosted_log for hosted_log in self._logs.usable}
        eligible_logs = self._cleaner_manager.begin_retention(hosted_logs)
        deletable: dict[UnifiedLog, list[DeletableSegment]] = {}
        try:
            for log in eligible_logs:
                if segments := self._delete_old_segments(hosted_logs[log], now_ms):
                    deletable[log] = segments
        finally:
            # The cleaner manager has already ended retention for logs of failed directories.
            self._cleaner_manager.end_retention(
                log
                for log in eligible_logs
                if log not in deletable and hosted_logs[log].directory.is_online
            )
        online = {
            log: segments
            for log, segments in deletable.items()
            if hosted_logs[log].directory.is_online
        }
        return RetentionResult(
            [segment for segments in online.values() for segment in segments],
            [
                self._file_deletion_task(hosted_logs[log], segments, now_ms)
                for log, segments in online.items()
            ],
        )

    def _delete_old_segments(self, hosted_log: HostedLog, now_ms: int) -> list[DeletableSegment]:
        start_offset = hosted_log.log.log_start_offset
        with suppress(*SKIPPABLE_ERRORS), hosted_log as log, _restore_open_state(log):
            return delete_old_segments(log, now_ms=now_ms)
        if hosted_log.log.log_start_offset != start_offset:
            # Some segments are out of the log, and it is unknown which.
            hosted_log.needs_recovery = True
        return []

    def _file_deletion_task(
        self, hosted_log: HostedLog, deleted: Sequence[DeletableSegment], now_ms: int
    ) -> DiskTask:
        segments = [deletable.segment for deletable in deleted]
        step = plan_file_deletion(hosted_log.log, deleted)
        hosted_log.is_deleting_segments = True

        def on_complete(is_done: bool) -> None:
            if not hosted_log.directory.is_online:
                return
            if is_done and hosted_log.is_usable:
                with hosted_log as log:
                    mark_snapshots_deleted(segments, log.producer_state_manager.snapshots)
                self.schedule_deletion(hosted_log, segments, now_ms=now_ms)
            # After a failure, some old files still have their names.
            hosted_log.needs_recovery |= not is_done
            hosted_log.is_deleting_segments = False
            self._cleaner_manager.end_retention([hosted_log.log])

        return DiskTask(
            hosted_log.directory,
            f"renaming old segments of {hosted_log.partition}",
            lambda: step,
            on_complete=on_complete,
            is_obsolete=lambda: hosted_log.is_deleted,
        )

    def schedule_deletion(
        self, hosted_log: HostedLog, segments: Sequence[LogSegment], *, now_ms: int
    ) -> None:
        """Schedule the removal of segments that are out of the log and renamed."""
        if segments:
            due_ms = now_ms + hosted_log.log.settings.file_delete_delay_ms
            self.removals.add_segments(hosted_log, segments, due_ms)

    def due_removal_tasks(self, now_ms: int) -> list[DiskTask]:
        return self.removals.take_due(now_ms)

    def next_compaction(self, now_ms: int, settings: CleanerSettings) -> Compaction | None:
        """Start the compaction of the dirtiest log that is due: see compaction.py."""
        candidates = []
        for hosted_log in self._logs.usable:
            if hosted_log.is_future:
                continue
            with suppress(*SKIPPABLE_ERRORS), hosted_log as log, _restore_open_state(log):
                candidate = self._cleaner_manager.log_to_clean(log, now_ms=now_ms)
                if candidate is not None:
                    candidates.append(candidate)
        usable = [
            candidate
            for candidate in candidates
            if self._logs.current[candidate.partition].is_usable
        ]
        log_to_clean = self._cleaner_manager.grab_filthiest(usable)
        return (
            None if log_to_clean is None else self._start_compaction(log_to_clean, settings, now_ms)
        )

    def _start_compaction(
        self, log_to_clean: LogToClean, settings: CleanerSettings, now_ms: int
    ) -> Compaction | None:
        hosted_log = self._logs.current[log_to_clean.partition]
        with suppress(*SKIPPABLE_ERRORS), hosted_log as log, _restore_open_state(log):
            task = build_cleaning_task(
                log,
                settings,
                first_dirty_offset=log_to_clean.first_dirty_offset,
                first_uncleanable_offset=log_to_clean.first_uncleanable_offset,
                now_ms=now_ms,
            )
            return Compaction(hosted_log, task, self._cleaner_manager, self.schedule_deletion)
        if hosted_log.directory.is_online:
            self._cleaner_manager.on_cleaning_aborted(hosted_log.log)
        return None

    def remove_expired_producers(self, now_ms: int) -> int:
        """Remove the producers that have expired, in all logs.  Return how many."""
        return sum(
            hosted_log.log.producer_state_manager.remove_expired_producers(now_ms)
            for hosted_log in self._logs.usable
        )


@contextmanager
def _restore_open_state(log: UnifiedLog) -> Iterator[None]:
    """Close segments that were opened meanwhile: an idle log must not keep three descriptors."""
    closed = [segment for segment in log.segments if not segment.is_open]
    try:
        yield
    finally:
        for segment in closed:
            segment.close_handlers()
