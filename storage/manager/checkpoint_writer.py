"""Writing the checkpoints of log directories, as they are when the writing begins.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.storage.cleaner.schedule import CleanerSchedule
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.directory_checkpoints import Contents, DirectoryCheckpoints
from odradek.storage.manager.disk_work import DiskWork, Step
from odradek.storage.manager.registry import LogRegistry


class CheckpointWork:
    """Makes work that brings a directory's checkpoints up to date."""

    def __init__(self, logs: LogRegistry, cleaner: CleanerSchedule) -> None:
        self._logs = logs
        self._cleaner = cleaner
        self._checkpoints: dict[LogDirectory, DirectoryCheckpoints] = {}

    def add(self, checkpoints: DirectoryCheckpoints) -> None:
        self._checkpoints[checkpoints.directory] = checkpoints

    def of(self, directory: LogDirectory) -> DirectoryCheckpoints:
        return self._checkpoints[directory]

    def work(
        self,
        directory: LogDirectory,
        *,
        what: str = "writing checkpoints",
        first: Step | None = None,
        ended: Callable[[bool], None] | None = None,
    ) -> DiskWork:
        """``first`` is run before the files are written, ``ended`` is told as by any work."""
        checkpoints = self._checkpoints[directory]
        contents: Contents = {}

        def begin() -> Step:
            logs = self._logs.in_directory(directory)
            contents.clear()
            contents.update(checkpoints.changes(logs, self._cleaner.offsets_in(directory.path)))
            return run

        def run() -> None:
            if first is not None:
                first()
            checkpoints.write(contents)

        def written(is_done: bool) -> None:
            if is_done:
                checkpoints.written(contents)
            else:
                checkpoints.broken_off(contents)
            if ended is not None:
                ended(is_done)

        return DiskWork(directory, what, begin, ended=written, is_exclusive=True)
