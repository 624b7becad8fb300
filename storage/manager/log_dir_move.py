"""Moves a log to another log directory by means of a future log that replaces the current log.

Kafka: LogManager.replaceCurrentWithFutureLog.

The future log is a separate log in a ``-future`` directory.  It fetches from the current log like a
follower.  Once it has caught up:

    prepare   flush the future log, then create the file ``moving-away`` beside the current segments
    swap      rename the future log to the name of the current log, and use it from then on
    finish    flush that name, and write the offsets of the future log to the checkpoints of its
              directory; after that the old log is deleted like any other

A crash before the swap leaves the old log; a crash after ``finish`` leaves the new one.  A crash in
between leaves both under the same name.  Then the log with the file is the old one, whichever
directory has failed since.  (Kafka does the same two renames, and an administrator has to find out
which log is the old one.)

Invariant: a current log always has a directory that a restart would find.
Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from odradek.protocol.types import TopicPartition
from odradek.storage import files
from odradek.storage.manager.checkpoint_writer import CheckpointWriter
from odradek.storage.manager.disk_task import DiskTask
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.pending_deletes import PendingDeletes
from odradek.storage.manager.registry import LogRegistry
from odradek.storage.paths import DirectoryType, new_directory_name
from odradek.storage.unified_log import UnifiedLog

MOVE_MARKER_FILE_NAME = "moving-away"


def has_move_marker(directory: Path) -> bool:
    """Return whether another log of the same name, if there is one, has replaced this log."""
    return (directory / MOVE_MARKER_FILE_NAME).exists()


def remove_move_marker(directory: Path) -> None:
    """Remove the marker if there is no other log.  The removal is durable on return."""
    files.remove_durably(directory / MOVE_MARKER_FILE_NAME)


def remove_move_marker_task(current: HostedLog) -> DiskTask:
    """Cancel a move: a log that is created elsewhere later must not replace this log."""

    def on_complete(is_done: bool) -> None:
        current.has_move_marker = not is_done

    return DiskTask(
        current.directory,
        f"removing the move marker of {current.partition}",
        lambda: partial(remove_move_marker, current.log.directory),
        on_complete=on_complete,
        is_obsolete=lambda: current.is_deleted,
    )


class LogDirMove:
    """The move of one log."""

    def __init__(self, partition: TopicPartition, logs: LogRegistry) -> None:
        self._logs = logs
        self.current = logs.current[partition]
        self.future = logs.future[partition]

    def prepare(self, *, now_ms: int) -> list[DiskTask]:
        """Return tasks that must run in this order."""
        current, future = self.current, self.future
        flush_task = future.flush_task(now_ms=now_ms)
        marker, target_path = (
            current.log.directory / MOVE_MARKER_FILE_NAME,
            str(future.directory.path).encode(),
        )

        def on_complete(is_done: bool) -> None:
            current.has_move_marker = is_done

        mark_task = DiskTask(
            current.directory,
            f"marking {current.partition} as moving away",
            lambda: partial(files.replace, marker, target_path),
            on_complete=on_complete,
            is_obsolete=lambda: current.is_deleted,
        )
        return [mark_task] if flush_task is None else [flush_task, mark_task]

    @property
    def is_ready(self) -> bool:
        """Whether the future log has all records of the log, and is flushed at least as far."""
        log, future_log = self.current.log, self.future.log
        return (
            self.current.has_move_marker
            and future_log.log_end_offset == log.log_end_offset
            and future_log.recovery_point >= log.recovery_point
        )

    def swap(self, pending_deletes: PendingDeletes) -> None:
        """Make the future log the current log.

        The old log keeps its name until ``finish_task`` is done; only then can it be deleted.
        """
        current, future = self.current, self.future
        with future as log:
            path = log.directory.with_name(
                str(new_directory_name(log.partition, DirectoryType.LOG))
            )
            files.rename(log.directory, path)
            _update_parent_dir(log, path)
            # Records may have been deleted since the future log last got the log start offset.
            start_offset = min(current.log.log_start_offset, log.log_end_offset)
            high_watermark = max(current.log.high_watermark, log.log_start_offset, start_offset)
            log.update_high_watermark(min(high_watermark, log.log_end_offset))
            log.maybe_increment_log_start_offset(start_offset)
        self._logs.remove(current)
        self._logs.remove(future)
        future.is_future = False
        future.is_directory_synced = False
        self._logs.add(future)
        pending_deletes.add(current, hold_name=True)

    def finish_task(
        self, checkpoint_writer: CheckpointWriter, *, on_complete: Callable[[bool], None]
    ) -> DiskTask:
        """Make the new name of the future log and its offsets durable."""
        future = self.future

        def on_named(is_done: bool) -> None:
            future.is_directory_synced |= is_done
            on_complete(is_done)

        return checkpoint_writer.write_task(
            future.directory,
            description=f"syncing the new name of {future.partition}",
            before_write=partial(files.sync_directory, future.directory.path),
            on_complete=on_named,
        )


def _update_parent_dir(log: UnifiedLog, directory: Path) -> None:
    """Update the paths of a log after its directory was renamed."""
    log.directory = directory
    log.leader_epoch_cache.update_parent_dir(directory)
    log.producer_state_manager.snapshots.directory = directory
    for segment in log.segments:
        segment.update_parent_dir(directory)
