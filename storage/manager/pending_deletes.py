"""Logs that are out of use and still have their names: the first half of deleting them.

    doom      the log is let go of; nobody finds it any more, and no other takes its place here
    works     it gets a ``-delete`` name, which is synced; then its offsets go from the checkpoints.
              From then on a new log of that name can be made, and the old one waits for removal

A crash before the new name is synced leaves the log as it was.  One after it leaves a directory
that the next start removes, and lines in the checkpoints that it drops.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from odradek.protocol.types import TopicPartition
from odradek.storage import files
from odradek.storage.manager.checkpoint_work import CheckpointWork
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.disk_work import DiskWork
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.removal_queue import RemovalQueue
from odradek.storage.paths import Purpose, new_directory_name


class DoomedLogs:
    """By the directory that they are in."""

    def __init__(self, checkpoints: CheckpointWork, removals: RemovalQueue) -> None:
        self._checkpoints = checkpoints
        self._removals = removals
        self._logs: dict[LogDirectory, list[HostedLog]] = {}
        self._kept: set[HostedLog] = set()
        self._new_paths: dict[HostedLog, Path] = {}

    def doom(self, hosted: HostedLog, *, keep: bool = False) -> None:
        """``keep`` its name until ``unkeep``, while nothing else could be found by it."""
        hosted.is_deleted = True
        hosted.log.abandon()
        self._logs.setdefault(hosted.directory, []).append(hosted)
        if keep:
            self._kept.add(hosted)

    def unkeep(self, hosted: HostedLog) -> None:
        self._kept.discard(hosted)

    def has(self, directory: LogDirectory, partition: TopicPartition) -> bool:
        return any(hosted.partition == partition for hosted in self._logs.get(directory, ()))

    def are_in(self, directory: LogDirectory) -> bool:
        return bool(self._logs.get(directory))

    def works(self, *, delay_ms: int, now_ms: int) -> list[DiskWork]:
        """For each directory, to be carried out once; removal is due ``delay_ms`` from now."""
        works = []
        for directory, logs in self._logs.items():
            ready = [hosted for hosted in logs if hosted not in self._kept]
            self._kept |= set(ready)
            if directory.is_online and ready:
                works.append(self._work(directory, ready, due_ms=now_ms + delay_ms))
        return works

    def _work(self, directory: LogDirectory, logs: Sequence[HostedLog], *, due_ms: int) -> DiskWork:
        names = {hosted.log.directory: self._new_path(hosted) for hosted in logs}

        def ended(is_done: bool) -> None:
            self._kept -= set(logs)
            if not is_done:
                return
            for hosted in logs:
                self._logs[directory].remove(hosted)
                del self._new_paths[hosted]
            for path in names.values():
                self._removals.add_log(directory, path, due_ms)

        return self._checkpoints.work(
            directory,
            what="deleting logs",
            first=partial(_rename, names, directory.path),
            ended=ended,
        )

    def _new_path(self, hosted: HostedLog) -> Path:
        """The same whenever it is asked for: work that was broken off is handed out again."""
        name = str(new_directory_name(hosted.partition, Purpose.DELETE))
        return self._new_paths.setdefault(hosted, hosted.log.directory.with_name(name))


def _rename(names: Mapping[Path, Path], directory: Path) -> None:
    """Those that do not have their new names yet."""
    for before, after in names.items():
        if not after.exists():
            files.rename(before, after)
    files.sync_directory(directory)
