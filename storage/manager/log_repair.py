"""Recovers logs whose change failed for lack of file descriptors: their files and memory differ.

The state is the same as after a kill in the middle of that change, and so is the repair: the log is
recovered from its files and opened again, while all other logs stay in use.  All acknowledged
records are there; of the failed change any part may be.  Before the recovery, the written data is
flushed through the descriptors that it was written with, because only these are sure to report a
failed write.

Until then, access to the log fails with TooManyOpenFiles, which clients retry.  The repair waits
while a compaction, a flush or another task on the log is in progress.

Owner: the event loop; its tasks may run on a disk thread.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from odradek.protocol.errors import DecodeError, KafkaError
from odradek.storage import files
from odradek.storage.cleaner.log_cleaner_manager import LogCleanerManager
from odradek.storage.log_loader import LoadLogParams, LogLoadReport, open_log, recover_log
from odradek.storage.manager.checkpoint_writer import CheckpointWriter
from odradek.storage.manager.disk_task import DiskTask
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.registry import LogRegistry
from odradek.storage.open_segments import TooManyOpenFiles
from odradek.storage.topic_settings_registry import TopicSettingsRegistry
from odradek.storage.unified_log import UnifiedLog


class LogRepairer:
    """Recovers and opens logs again."""

    def __init__(
        self,
        logs: LogRegistry,
        topic_settings: TopicSettingsRegistry,
        cleaner_manager: LogCleanerManager,
        checkpoint_writer: CheckpointWriter,
        warn: Callable[[str], None],
    ) -> None:
        self._logs = logs
        self._topic_settings = topic_settings
        self._cleaner_manager = cleaner_manager
        self._checkpoint_writer = checkpoint_writer
        self._warn = warn
        self._in_progress: set[HostedLog] = set()

    def repair_tasks(self, *, now_ms: int) -> list[DiskTask]:
        """Return a task for each log that can be repaired now.

        Tasks of the same directory must run one after the other.
        """
        ready = [hosted_log for hosted_log in self._logs if self._can_be_repaired(hosted_log)]
        self._in_progress.update(ready)
        return [self._repair_task(hosted_log, now_ms) for hosted_log in ready]

    def _can_be_repaired(self, hosted_log: HostedLog) -> bool:
        is_idle = not (
            hosted_log.is_flushing
            or hosted_log.is_truncating
            or hosted_log in self._in_progress
            or self._cleaner_manager.is_cleaning_in_progress(hosted_log.log)
        )
        return hosted_log.needs_recovery and hosted_log.directory.is_online and is_idle

    def _repair_task(self, hosted_log: HostedLog, now_ms: int) -> DiskTask:
        old_log = hosted_log.log
        params = self._topic_settings.load_params(
            old_log.directory,
            old_log.partition,
            recovery_point=old_log.recovery_point,
            log_start_offset=old_log.log_start_offset,
            now_ms=now_ms,
        )
        report = LogLoadReport()
        opened_logs: list[UnifiedLog] = []

        def run() -> None:
            # A log that was deleted in the meantime may already have another name.
            if not hosted_log.is_deleted:
                _sync_and_close(old_log)
                opened_logs.append(_recover_and_open(params, report))

        def on_complete(is_done: bool) -> None:
            self._in_progress.discard(hosted_log)
            if is_done and not hosted_log.is_deleted:
                self._replace_log(hosted_log, opened_logs[-1])
                for problem in report.problems:
                    self._warn(problem)

        return self._checkpoint_writer.write_task(
            hosted_log.directory,
            description=f"repairing {old_log.partition}",
            before_write=run,
            on_complete=on_complete,
        )

    def _replace_log(self, hosted_log: HostedLog, log: UnifiedLog) -> None:
        old_log = hosted_log.log
        high_watermark = max(old_log.high_watermark, log.log_start_offset)
        log.update_high_watermark(min(high_watermark, log.log_end_offset))
        if old_log.leader_epoch_cache.latest_epoch > log.leader_epoch_cache.latest_epoch:
            # The epoch of a leader that has not appended yet.
            log.leader_epoch_cache.assign(
                old_log.leader_epoch_cache.latest_epoch, start_offset=log.log_end_offset
            )
        log.last_flush_ms = old_log.last_flush_ms
        log.configure(self._topic_settings[log.partition.topic])
        hosted_log.log = log
        hosted_log.is_repaired = True
        hosted_log.needs_recovery = hosted_log.is_deleting_segments = False
        if not hosted_log.is_future:
            self._cleaner_manager.maybe_truncate_checkpoint(log, log.log_end_offset)


def _sync_and_close(log: UnifiedLog) -> None:
    for segment in log.segments:
        if segment.is_open:
            files.sync(segment.file.descriptor)
    log.close_handlers()


def _recover_and_open(params: LoadLogParams, report: LogLoadReport) -> UnifiedLog:
    try:
        report.merge(recover_log(params))
        return open_log(params, report)
    except TooManyOpenFiles:
        raise
    except (KafkaError, DecodeError) as error:
        raise OSError(errno.EIO, f"{params.directory} cannot be recovered: {error}") from error
