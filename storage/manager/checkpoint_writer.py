"""Creates the tasks that write the checkpoint files of log directories.

The contents are computed when a task is prepared, not when it is created.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.storage.cleaner.log_cleaner_manager import LogCleanerManager
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.directory_checkpoints import CheckpointContents, DirectoryCheckpoints
from odradek.storage.manager.disk_task import DiskTask, Step
from odradek.storage.manager.registry import LogRegistry


class CheckpointWriter:
    """Creates tasks that bring the checkpoints of a directory up to date."""

    def __init__(self, logs: LogRegistry, cleaner_manager: LogCleanerManager) -> None:
        self._logs = logs
        self._cleaner_manager = cleaner_manager
        self._checkpoints: dict[LogDirectory, DirectoryCheckpoints] = {}

    def add(self, checkpoints: DirectoryCheckpoints) -> None:
        self._checkpoints[checkpoints.directory] = checkpoints

    def checkpoints_of(self, directory: LogDirectory) -> DirectoryCheckpoints:
        return self._checkpoints[directory]

    def write_task(
        self,
        directory: LogDirectory,
        *,
        description: str = "writing checkpoints",
        before_write: Step | None = None,
        on_complete: Callable[[bool], None] | None = None,
    ) -> DiskTask:
        """``before_write`` runs before the files are written, in the same ``run``."""
        checkpoints = self._checkpoints[directory]
        contents: CheckpointContents = {}

        def prepare() -> Step:
            logs = self._logs.in_directory(directory)
            contents.clear()
            contents.update(
                checkpoints.compute_changes(
                    logs, self._cleaner_manager.checkpoint_offsets(directory.path)
                )
            )
            return run

        def run() -> None:
            if before_write is not None:
                before_write()
            checkpoints.write(contents)

        def on_written(is_done: bool) -> None:
            if is_done:
                checkpoints.mark_written(contents)
            else:
                checkpoints.mark_interrupted(contents)
            if on_complete is not None:
                on_complete(is_done)

        return DiskTask(directory, description, prepare, on_complete=on_written, is_exclusive=True)
