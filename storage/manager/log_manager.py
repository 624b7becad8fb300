"""All logs of a broker: loads, creates, finds, truncates, deletes, moves and closes them.

Kafka: LogManager.

    directories      the log directories: directories.py
    topic_settings   the settings of topics: topic_settings_registry.py
    logs             all logs, by partition and directory: registry.py
    maintenance      periodic tasks: maintenance.py
    cleaner_manager  schedules compactions: cleaner/log_cleaner_manager.py

The caller supplies the time and the threads.  Operations that block on disk are returned as
DiskTask (disk_task.py), and logs are accessed through HostedLog.  When a directory fails, its logs
go offline with it, wherever the failure is detected; other directories are not affected.

Before a log is deleted, replaced, or truncated below its active segment, its compaction must be
paused.

A task that fails with TooManyOpenFiles is returned again by the method that returned it.  A log
that the failure left half changed is not usable until its task from ``repair_tasks`` is done; call
that method periodically, like those of ``maintenance``.

Owner: the event loop.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from odradek.protocol.errors import InconsistentTopicId, KafkaStorageError
from odradek.protocol.types import TopicPartition, Uuid
from odradek.storage import files, partition_metadata
from odradek.storage.clean_shutdown import NO_BROKER_EPOCH
from odradek.storage.cleaner.log_cleaner_manager import LogCleanerManager
from odradek.storage.log_truncation import TruncationPlan, plan_full_truncation, plan_truncation
from odradek.storage.manager.checkpoint_writer import CheckpointWriter
from odradek.storage.manager.directories import LogDirectories
from odradek.storage.manager.directory import LogDirectory, LogDirectoryOffline
from odradek.storage.manager.disk_task import DiskTask, execute
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.log_creation import LogCreator
from odradek.storage.manager.log_dir_loader import (
    LogDirLoader,
    TaskRunner,
    UnloadableLog,
    run_sequentially,
)
from odradek.storage.manager.log_dir_move import LogDirMove
from odradek.storage.manager.log_recovery import RecoveryProgress, ignore_progress
from odradek.storage.manager.log_repair import LogRepairer
from odradek.storage.manager.log_shutdown import close_directory, close_logs
from odradek.storage.manager.maintenance import LogMaintenanceTasks
from odradek.storage.manager.pending_deletes import PendingDeletes
from odradek.storage.manager.registry import LogRegistry
from odradek.storage.open_segments import TooManyOpenFiles, retriable
from odradek.storage.paths import DirectoryType, new_directory_name
from odradek.storage.settings import TopicSettings
from odradek.storage.topic_settings_registry import TopicSettingsRegistry


class LogManager:
    """The logs in all log directories, which must be open.  Kafka: LogManager."""

    def __init__(self, directories: LogDirectories, topic_settings: TopicSettingsRegistry) -> None:
        self.directories = directories
        self.topic_settings = topic_settings
        self.logs = LogRegistry()
        self.cleaner_manager = LogCleanerManager()
        self.maintenance = LogMaintenanceTasks(self.logs, self.cleaner_manager)
        self._checkpoint_writer = CheckpointWriter(self.logs, self.cleaner_manager)
        self._pending_deletes = PendingDeletes(self._checkpoint_writer, self.maintenance.removals)
        self._log_creator = LogCreator(self.logs, self._pending_deletes, topic_settings)
        self._log_repairer = LogRepairer(
            self.logs,
            topic_settings,
            self.cleaner_manager,
            self._checkpoint_writer,
            directories.observer.on_warning,
        )
        self._unloadable_logs: dict[TopicPartition, UnloadableLog] = {}
        self._unloadable_to_delete: list[UnloadableLog] = []
        self._unloadable_being_deleted: list[UnloadableLog] = []
        self._moves_to_finish: list[LogDirMove] = []
        directories.on_failure = self._handle_log_dir_failure

    def load(
        self,
        *,
        now_ms: int,
        run_all: TaskRunner = run_sequentially,
        progress: RecoveryProgress = ignore_progress,
    ) -> None:
        """Load all logs; ``run_all`` runs the recoveries.

        Raise DuplicateLog if a partition has two logs and it is unknown which is out of date.
        """
        loader = LogDirLoader(
            self.directories, self.topic_settings, now_ms=now_ms, progress=progress
        )
        loaded = loader.load(run_all)
        self._unloadable_logs = loaded.unloadable
        for hosted_log in loaded.logs:
            self.logs.add(hosted_log)
        for directory, checkpoints in loaded.checkpoints.items():
            with suppress(LogDirectoryOffline), directory.guard("updating its checkpoints"):
                # Drop the entries of deleted logs: they must not apply to new logs of that name.
                self.cleaner_manager.load_checkpoint(directory.path)
                present = {hosted_log.partition for hosted_log in self.logs.in_directory(directory)}
                self.cleaner_manager.retain_partitions(directory.path, present)
                self._checkpoint_writer.add(checkpoints)
                execute(self._checkpoint_writer.write_task(directory))
        for directory, path in loaded.to_delete:
            self.maintenance.removals.add_log(directory, path, now_ms + self._delete_delay_ms)

    @property
    def _delete_delay_ms(self) -> int:
        return self.topic_settings.defaults.file_delete_delay_ms

    # Lookup and creation

    def find(self, partition: TopicPartition) -> HostedLog | None:
        """Raise KafkaStorageError if the log exists and could not be opened."""
        if partition in self._unloadable_logs:
            raise KafkaStorageError(self._unloadable_logs[partition].reason)
        return self.logs.current.get(partition)

    def find_future(self, partition: TopicPartition) -> HostedLog | None:
        return self.logs.future.get(partition)

    def get_or_create_log(
        self,
        partition: TopicPartition,
        *,
        topic_id: Uuid | None = None,
        directory: LogDirectory | None = None,
        is_new: bool = True,
        now_ms: int,
    ) -> HostedLog:
        """Return the log of the partition; create it in ``directory`` or in the least used one.

        With ``is_new=False`` the log should exist.  It may be in a directory that is offline, so it
        is then only created if all directories are online.
        """
        hosted_log = self.find(partition)
        if hosted_log is None:
            if not is_new:
                self._check_all_online(partition)
            directories = self.directories.online if directory is None else [directory]
            return self._log_creator.create(
                partition, DirectoryType.LOG, directories, topic_id, now_ms
            )
        with hosted_log as log, retriable():
            if topic_id is not None and hosted_log.topic_id is None:
                partition_metadata.write(log.directory, topic_id, is_synced=False)
                hosted_log.topic_id, hosted_log.is_directory_synced = topic_id, False
        if topic_id is not None and topic_id != hosted_log.topic_id:
            raise InconsistentTopicId(
                f"the log of {partition} has topic ID {hosted_log.topic_id}, not {topic_id}"
            )
        return hosted_log

    def configure(self, topic: str, settings: TopicSettings | None) -> None:
        """Change the settings of a topic; None resets them to the defaults."""
        self.topic_settings.update(topic, settings)
        self._configure_all()

    def configure_defaults(self, defaults: TopicSettings) -> None:
        """Change the settings of topics without their own settings."""
        self.topic_settings.defaults = defaults
        self._configure_all()

    def _configure_all(self) -> None:
        for hosted_log in self.logs:
            settings = self.topic_settings[hosted_log.partition.topic]
            if settings is not hosted_log.log.settings:
                hosted_log.log.configure(settings)

    # Truncation and deletion

    def truncate(self, hosted_log: HostedLog, offset: int, *, now_ms: int) -> DiskTask:
        """Truncate a log to ``offset``.  The log must not be appended to before the task is done.

        Otherwise a power cut could leave new records where old ones are known to be flushed, or old
        records after new ones.  The log must not be truncated again either.  An offset before the
        first segment has the effect of ``truncate_fully_and_start_at``.
        """
        self._check_cleaning_not_in_progress(hosted_log, offset)
        with hosted_log as log:
            warn = self.directories.observer.on_warning
            truncation = plan_truncation(log, offset, now_ms=now_ms, warn=warn)
        return self._truncation_task(hosted_log, truncation, now_ms)

    def truncate_fully_and_start_at(
        self,
        hosted_log: HostedLog,
        new_offset: int,
        *,
        log_start_offset: int | None = None,
        now_ms: int,
    ) -> DiskTask:
        """Delete all records and start the log at ``new_offset``.

        The log must not be appended to before the task is done.  Unlike ``truncate``, this method
        itself blocks on disk once per segment, unless the log is a single empty segment.  So first
        truncate the log to its first offset and run that task.
        """
        self._check_cleaning_not_in_progress(hosted_log)
        with hosted_log as log:
            truncation = plan_full_truncation(log, new_offset, log_start_offset=log_start_offset)
        return self._truncation_task(hosted_log, truncation, now_ms)

    def _truncation_task(
        self, hosted_log: HostedLog, plan: TruncationPlan, now_ms: int
    ) -> DiskTask:
        if not hosted_log.is_future:
            self.cleaner_manager.maybe_truncate_checkpoint(
                hosted_log.log, hosted_log.log.log_end_offset
            )
        hosted_log.is_truncating = True

        def run() -> None:
            # A log that was deleted in the meantime may already have another name.
            if not hosted_log.is_deleted:
                plan.run()

        def on_complete(is_done: bool) -> None:
            hosted_log.is_truncating = False
            if is_done:
                self.maintenance.schedule_deletion(hosted_log, plan.dropped_segments, now_ms=now_ms)
            else:
                hosted_log.needs_recovery = True

        return self._checkpoint_writer.write_task(
            hosted_log.directory,
            description=f"truncating {hosted_log.partition}",
            before_write=run,
            on_complete=on_complete,
        )

    def delete(self, partition: TopicPartition) -> bool:
        """Remove the log of a partition and its future log from use; False if there is none.

        The caller must then run ``deletion_tasks``.  A log that could not be opened can be deleted
        too.
        """
        unloadable = self._unloadable_logs.pop(partition, None)
        if unloadable is not None:
            self._unloadable_to_delete.append(unloadable)
        current = self.find(partition)
        if current is None and unloadable is None:
            self._check_all_online(partition)
        logs = [current, self.find_future(partition)]
        hosted_logs = [hosted_log for hosted_log in logs if hosted_log is not None]
        for hosted_log in hosted_logs:
            if not hosted_log.directory.is_online:
                raise hosted_log.directory.offline_error()
            self._check_cleaning_not_in_progress(hosted_log)
        for hosted_log in hosted_logs:
            self.logs.remove(hosted_log)
            self._pending_deletes.add(hosted_log)
        self.cleaner_manager.remove_partition(partition)
        return bool(hosted_logs) or unloadable is not None

    def deletion_tasks(self, *, now_ms: int) -> list[DiskTask]:
        """Return the remaining tasks for logs that were deleted or replaced."""
        moves, self._moves_to_finish = self._moves_to_finish, []
        tasks = [self._finish_move_task(move) for move in moves if move.future.directory.is_online]
        tasks += self._pending_deletes.rename_tasks(delay_ms=self._delete_delay_ms, now_ms=now_ms)
        unloadable_logs, self._unloadable_to_delete = self._unloadable_to_delete, []
        online = [unloadable for unloadable in unloadable_logs if unloadable.directory.is_online]
        return tasks + [self._unloadable_deletion_task(unloadable, now_ms) for unloadable in online]

    def _unloadable_deletion_task(self, unloadable: UnloadableLog, now_ms: int) -> DiskTask:
        directory, path = unloadable.directory, unloadable.path
        name = str(new_directory_name(unloadable.partition, DirectoryType.DELETE))
        target = unloadable.delete_path or path.with_name(name)
        self._checkpoint_writer.checkpoints_of(directory).stop_retaining(unloadable.partition)
        self._unloadable_being_deleted.append(unloadable)

        def on_complete(is_done: bool) -> None:
            self._unloadable_being_deleted.remove(unloadable)
            if is_done:
                self.maintenance.removals.add_log(directory, target, now_ms + self._delete_delay_ms)
            else:
                self._unloadable_to_delete.append(replace(unloadable, delete_path=target))

        return self._checkpoint_writer.write_task(
            directory,
            description=f"deleting {path}",
            before_write=partial(_rename, path, target),
            on_complete=on_complete,
        )

    # Moves to another directory

    def create_future(
        self, partition: TopicPartition, directory: LogDirectory, *, now_ms: int
    ) -> HostedLog:
        """Create an empty future log in another directory than that of the current log."""
        current = self.logs.current[partition]
        assert directory is not current.directory, current
        assert partition not in self.logs.future, current
        with current:
            return self._log_creator.create(
                partition, DirectoryType.FUTURE, [directory], current.topic_id, now_ms
            )

    def delete_future(self, partition: TopicPartition) -> None:
        """Cancel a move.  The caller must then run ``deletion_tasks``."""
        future = self.logs.future[partition]
        if not future.directory.is_online:
            raise future.directory.offline_error()
        self._check_cleaning_not_in_progress(future)
        self.logs.remove(future)
        self._pending_deletes.add(future)

    def prepare_move(self, partition: TopicPartition, *, now_ms: int) -> list[DiskTask]:
        """Prepare a move whose future log has caught up.  The tasks must run in this order."""
        return LogDirMove(partition, self.logs).prepare(now_ms=now_ms)

    def finish_move(self, partition: TopicPartition) -> DiskTask | None:
        """Switch to the future log; None if it has fallen behind and must be prepared again.

        When the task is done, the caller must run ``deletion_tasks``.
        """
        move = LogDirMove(partition, self.logs)
        with move.current, move.future:
            self._check_cleaning_not_in_progress(move.current)
            self._check_cleaning_not_in_progress(move.future)
            if not move.is_ready or move.future.is_truncating:
                return None
        move.swap(self._pending_deletes)
        source, target = move.current.directory, move.future.directory
        self.cleaner_manager.alter_checkpoint_dir(partition, source=source.path, target=target.path)
        return self._finish_move_task(move)

    def _finish_move_task(self, move: LogDirMove) -> DiskTask:
        def on_complete(is_done: bool) -> None:
            if is_done:
                self._pending_deletes.release_name(move.current)
            else:
                self._moves_to_finish.append(move)

        return move.finish_task(self._checkpoint_writer, on_complete=on_complete)

    # Repair, checkpoints and shutdown

    def repair_tasks(self, *, now_ms: int) -> list[DiskTask]:
        """Return tasks that recover logs whose change failed for lack of file descriptors."""
        return self._log_repairer.repair_tasks(now_ms=now_ms)

    def checkpoint_task(self, directory: LogDirectory) -> DiskTask:
        """Return a task that writes recovery points, start offsets and high watermarks."""
        return self._checkpoint_writer.write_task(directory)

    def checkpoint_tasks(self) -> list[DiskTask]:
        return [self.checkpoint_task(directory) for directory in self.directories.online]

    def close(
        self,
        *,
        now_ms: int,
        run_all: TaskRunner = run_sequentially,
        broker_epoch: int = NO_BROKER_EPOCH,
        keep_locks: bool = False,
    ) -> None:
        """Flush and close all logs, so that the next start has nothing to recover.

        ``run_all`` runs the closing of logs, which blocks; these tasks cannot be pickled.  With
        ``keep_locks`` the directories stay locked, because other code still works in them.  The
        caller releases them later.
        """
        for task in self.deletion_tasks(now_ms=now_ms):
            with suppress(LogDirectoryOffline, TooManyOpenFiles):
                execute(task)
        close_logs(self.logs, run_all, now_ms=now_ms)
        for directory in self.directories.online:
            close_directory(
                directory,
                self._checkpoint_writer,
                is_clean=not self._has_unfinished_logs(directory),
                broker_epoch=broker_epoch,
            )
        if not keep_locks:
            self.directories.release()

    def _has_unfinished_logs(self, directory: LogDirectory) -> bool:
        """Return whether an operation on file names or file lengths is incomplete."""
        unloadable_logs = [*self._unloadable_being_deleted, *self._unloadable_to_delete]
        return (
            any(
                hosted_log.is_truncating or hosted_log.needs_recovery
                for hosted_log in self.logs.in_directory(directory)
            )
            or any(unloadable.directory is directory for unloadable in unloadable_logs)
            or any(move.future.directory is directory for move in self._moves_to_finish)
            or self._pending_deletes.has_any_in(directory)
        )

    def close_handlers(self) -> None:
        """Close all files without flushing; the next start has to recover the logs."""
        for hosted_log in self.logs:
            hosted_log.log.close_handlers()
        self.directories.release()

    def _check_all_online(self, partition: TopicPartition) -> None:
        if offline := self.directories.offline:
            raise KafkaStorageError(f"{partition} may be in {offline[0].path}, which is offline")

    def _check_cleaning_not_in_progress(self, hosted_log: HostedLog, offset: int = 0) -> None:
        """Compaction and retention do not touch the active segment."""
        log = hosted_log.log
        is_sealed = len(log.segments) == 0 or offset < log.segments.active.base_offset
        assert not (is_sealed and self.cleaner_manager.is_cleaning_in_progress(log)), hosted_log

    def _handle_log_dir_failure(self, directory: LogDirectory) -> None:
        for hosted_log in self.logs.in_directory(directory):
            hosted_log.log.close_handlers()
            if hosted_log.is_future:
                self.logs.remove(hosted_log)
        self.cleaner_manager.handle_log_dir_failure(directory.path)


def _rename(path: Path, target: Path) -> None:
    """Rename the directory, unless an interrupted earlier attempt has done it."""
    if path.exists():
        files.rename(path, target)
    files.sync_directory(target.parent)
