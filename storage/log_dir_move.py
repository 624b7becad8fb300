"""Moving a log to another log directory, by way of a copy that takes its place.

The copy is a log of its own, in a ``-future`` directory, which follows the current one like any
follower.  Once it has caught up:

    prepare   the copy is synced; the recovery point of the copy is in its directory's checkpoint,
              and that of the current log no longer is in its own's
    swap      the copy gets the log's name, and is used from then on
    finish    that name is synced; after that the old log is deleted like any other

A crash before the swap leaves the old log, which is then recovered from its beginning; one after
the end, the new.  One in between leaves both under the same name, and the one without a recovery
point is the old one, whichever directory has failed meanwhile.  (Kafka does the same two renames
and leaves it to an administrator to tell which is which.)

Invariant: a current log is never without a directory that a restart would find.
Owner: the event loop.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from odradek.protocol.types import TopicPartition
from odradek.storage import files
from odradek.storage.checkpoint_work import CheckpointWork
from odradek.storage.disk_work import DiskWork
from odradek.storage.doomed_logs import DoomedLogs
from odradek.storage.log import Log
from odradek.storage.log_registry import LogRegistry
from odradek.storage.offset_checkpoints import RECOVERY_POINTS
from odradek.storage.paths import Purpose, new_directory_name


class LogDirMove:
    """One log on its way."""

    def __init__(self, partition: TopicPartition, logs: LogRegistry) -> None:
        self._logs = logs
        self._current = logs.current[partition]
        self._future = logs.future[partition]

    def prepare(self, checkpoints: CheckpointWork, *, now_ms: int) -> list[DiskWork]:
        """To be carried out in this order."""
        current, future = self._current, self._future
        current.is_leaving = True
        flush = future.plan_flush(now_ms=now_ms)
        works = [checkpoints.work(future.directory), checkpoints.work(current.directory)]
        return works if flush is None else [flush, *works]

    def is_ready(self, checkpoints: CheckpointWork) -> bool:
        """Whether the copy has everything that the log has, on disk where that has it so."""
        current, future = self._current, self._future
        partition = current.partition
        source, target = checkpoints.of(current.directory), checkpoints.of(future.directory)
        return (
            current.is_leaving
            and future.log.end_offset == current.log.end_offset
            and future.log.recovery_point >= current.log.recovery_point
            and source.offset(RECOVERY_POINTS, partition) is None
            and target.offset(RECOVERY_POINTS, partition) is not None
        )

    def swap(self, doomed: DoomedLogs) -> DiskWork:
        """The copy becomes the log.  Only when the work is done can the old one be deleted."""
        current, future = self._current, self._future
        with future as log:
            path = log.directory.with_name(str(new_directory_name(log.partition, Purpose.LOG)))
            files.rename(log.directory, path)
            _follow(log, path)
            seen = max(current.log.high_watermark, log.start_offset)
            log.advance_high_watermark(min(seen, log.end_offset))
        self._logs.remove(current)
        self._logs.remove(future)
        future.is_future = False
        future.is_name_synced = False
        self._logs.add(future)
        doomed.doom(current, keep=True)

        def ended(is_done: bool) -> None:
            future.is_name_synced = True
            doomed.unkeep(current)

        sync = partial(files.sync_directory, future.directory.path)
        return DiskWork(future.directory, f"naming {future.partition}", lambda: sync, ended=ended)


def _follow(log: Log, directory: Path) -> None:
    """The log's directory has been renamed."""
    log.directory = directory
    log.epochs.move(directory)
    log.producers.snapshots.directory = directory
    for segment in log.segments:
        segment.relocate(directory)
