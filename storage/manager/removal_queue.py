"""Files that wait for their removal from disk until ``file.delete.delay.ms`` has passed.

Segments wait as ``.deleted`` files, whole logs as ``-delete`` directories.  After a restart the
names are known, but not the due times: segments are then removed at once, and logs wait again for
the whole delay.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from pathlib import Path

from odradek.storage import files
from odradek.storage.log_segment import LogSegment
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.disk_task import DiskTask, Step
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.segment_deletion import delete_segment_files


class RemovalQueue:
    """Removal tasks, ordered by due time."""

    def __init__(self) -> None:
        self._queue: list[tuple[int, int, DiskTask]] = []
        self._sequence = count()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def next_due_ms(self) -> int | None:
        return self._queue[0][0] if self._queue else None

    def add_segments(
        self, hosted_log: HostedLog, segments: Sequence[LogSegment], due_ms: int
    ) -> None:
        """Schedule the removal of segments that are out of the log and renamed."""

        def prepare() -> Step:
            # The log may have moved in the meantime.
            for segment in segments:
                segment.directory = hosted_log.log.directory
            return partial(delete_segment_files, segments)

        def on_complete(is_done: bool) -> None:
            if not is_done and not hosted_log.is_deleted:
                self.add_segments(hosted_log, segments, due_ms)

        task = DiskTask(
            hosted_log.directory,
            f"removing segments of {hosted_log.partition}",
            prepare,
            on_complete=on_complete,
            is_obsolete=lambda: hosted_log.is_deleted,
        )
        self._add(task, due_ms)

    def add_log(self, directory: LogDirectory, path: Path, due_ms: int) -> None:
        """Schedule the removal of the renamed directory of a log."""
        step = partial(files.remove_directory, path)

        def on_complete(is_done: bool) -> None:
            if not is_done:
                self.add_log(directory, path, due_ms)

        self._add(
            DiskTask(directory, f"removing {path}", lambda: step, on_complete=on_complete), due_ms
        )

    def take_due(self, now_ms: int) -> list[DiskTask]:
        """Return the due tasks, without those of directories that have failed."""
        due = []
        while self._queue and self._queue[0][0] <= now_ms:
            *_, task = heappop(self._queue)
            if task.directory.is_online:
                due.append(task)
        return due

    def _add(self, task: DiskTask, due_ms: int) -> None:
        heappush(self._queue, (due_ms, next(self._sequence), task))
