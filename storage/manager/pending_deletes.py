"""Deleted logs that still have their names: the first half of a deletion.

    add            Take the log out of use.  It can no longer be found, and no other log can be
                   created under its name in this directory
    rename_tasks   Rename the log to a ``-delete`` name and flush the directory; then drop its
                   offsets from the checkpoints.  After that, a new log of that name can be created,
                   and the old one waits for its removal

A crash before the new name is flushed leaves the log as it was.  A later crash leaves a directory
that the next start removes, and checkpoint entries that it drops.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from odradek.protocol.types import TopicPartition
from odradek.storage import files
from odradek.storage.manager.checkpoint_writer import CheckpointWriter
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.disk_task import DiskTask
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.removal_queue import RemovalQueue
from odradek.storage.paths import DirectoryType, new_directory_name


class PendingDeletes:
    """The deleted logs that are not renamed yet, by directory."""

    def __init__(self, checkpoint_writer: CheckpointWriter, removals: RemovalQueue) -> None:
        self._checkpoint_writer = checkpoint_writer
        self._removals = removals
        self._logs: dict[LogDirectory, list[HostedLog]] = {}
        self._held: set[HostedLog] = set()
        self._delete_paths: dict[HostedLog, Path] = {}

    def add(self, hosted_log: HostedLog, *, hold_name: bool = False) -> None:
        """Add a log.  With ``hold_name`` it keeps its name until ``release_name``.

        Until then a restart might find no other log of the partition.
        """
        hosted_log.is_deleted = True
        hosted_log.log.close_handlers()
        self._logs.setdefault(hosted_log.directory, []).append(hosted_log)
        if hold_name:
            self._held.add(hosted_log)

    def release_name(self, hosted_log: HostedLog) -> None:
        self._held.discard(hosted_log)

    def contains(self, directory: LogDirectory, partition: TopicPartition) -> bool:
        return any(
            hosted_log.partition == partition for hosted_log in self._logs.get(directory, ())
        )

    def has_any_in(self, directory: LogDirectory) -> bool:
        return bool(self._logs.get(directory))

    def rename_tasks(self, *, delay_ms: int, now_ms: int) -> list[DiskTask]:
        """Return one task per directory, each to be run once; removal is due after ``delay_ms``."""
        tasks = []
        for directory, logs in self._logs.items():
            ready = [hosted_log for hosted_log in logs if hosted_log not in self._held]
            self._held |= set(ready)
            if directory.is_online and ready:
                tasks.append(self._rename_task(directory, ready, due_ms=now_ms + delay_ms))
        return tasks

    def _rename_task(
        self, directory: LogDirectory, logs: Sequence[HostedLog], *, due_ms: int
    ) -> DiskTask:
        names = {hosted_log.log.directory: self._delete_path(hosted_log) for hosted_log in logs}

        def on_complete(is_done: bool) -> None:
            self._held -= set(logs)
            if not is_done:
                return
            for hosted_log in logs:
                self._logs[directory].remove(hosted_log)
                del self._delete_paths[hosted_log]
            for path in names.values():
                self._removals.add_log(directory, path, due_ms)

        return self._checkpoint_writer.write_task(
            directory,
            description="deleting logs",
            before_write=partial(_rename_all, names, directory.path),
            on_complete=on_complete,
        )

    def _delete_path(self, hosted_log: HostedLog) -> Path:
        """Return the same path each time, because a failed task is created again."""
        name = str(new_directory_name(hosted_log.partition, DirectoryType.DELETE))
        return self._delete_paths.setdefault(hosted_log, hosted_log.log.directory.with_name(name))


def _rename_all(names: Mapping[Path, Path], directory: Path) -> None:
    """Rename the directories that do not have their new names yet."""
    for path, delete_path in names.items():
        if not delete_path.exists():
            files.rename(path, delete_path)
    files.sync_directory(directory)
