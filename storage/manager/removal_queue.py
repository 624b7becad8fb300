"""What waits to be removed from the disk, each until its time has come.

Segments wait as ``.deleted`` files, whole logs as ``-delete`` directories.  A restart forgets the
times and not the names: segments are then removed at once, and logs wait anew.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from pathlib import Path

from odradek.storage import files
from odradek.storage.deletion import remove
from odradek.storage.log_segment import LogSegment
from odradek.storage.manager.directory import LogDirectory
from odradek.storage.manager.disk_work import DiskWork, Step
from odradek.storage.manager.hosted_log import HostedLog


class RemovalQueue:
    """Work that becomes due."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, DiskWork]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def next_due_ms(self) -> int | None:
        return self._waiting[0][0] if self._waiting else None

    def add_segments(self, hosted: HostedLog, segments: Sequence[LogSegment], due_ms: int) -> None:
        """Segments of a log that have been set aside."""

        def begin() -> Step:
            # The log may have moved since.
            for segment in segments:
                segment.directory = hosted.log.directory
            return partial(remove, segments)

        def ended(is_done: bool) -> None:
            if not is_done and not hosted.is_deleted:
                self.add_segments(hosted, segments, due_ms)

        work = DiskWork(
            hosted.directory,
            f"removing segments of {hosted.partition}",
            begin,
            ended=ended,
            is_pointless=lambda: hosted.is_deleted,
        )
        self._add(work, due_ms)

    def add_log(self, directory: LogDirectory, path: Path, due_ms: int) -> None:
        """A partition's directory that has been renamed."""
        step = partial(files.remove_directory, path)

        def ended(is_done: bool) -> None:
            if not is_done:
                self.add_log(directory, path, due_ms)

        self._add(DiskWork(directory, f"removing {path}", lambda: step, ended=ended), due_ms)

    def take_due(self, now_ms: int) -> list[DiskWork]:
        """Of directories that have failed meanwhile nothing more is removed."""
        due = []
        while self._waiting and self._waiting[0][0] <= now_ms:
            *_, work = heappop(self._waiting)
            if work.directory.is_online:
                due.append(work)
        return due

    def _add(self, work: DiskWork, due_ms: int) -> None:
        heappush(self._waiting, (due_ms, next(self._numbers), work))
