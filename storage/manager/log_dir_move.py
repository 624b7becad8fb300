"""Moving a log to another log directory, by way of a copy that takes its place.

The copy is a log of its own, in a ``-future`` directory, which follows the current one like any
follower.  Once it has caught up:

    prepare   the copy is synced, then a file ``moving-away`` is put beside the current segments
    swap      the copy gets the log's name, and is used from then on
    finish    that name is synced, and the copy's offsets are written to the checkpoints of its
              directory; after that the old log is deleted like any other

A crash before the swap leaves the old log, one after the end the new.  One in between leaves both
under the same name, and the one with the file is the old one, whichever directory has failed since.
(Kafka does the same two renames and leaves it to an administrator to tell which is which.)

Invariant: a current log is never without a directory that a restart would find.
Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from odradek.protocol.types import TopicPartition
from odradek.storage import files
from odradek.storage.log import Log
from odradek.storage.manager.checkpoint_work import CheckpointWork
from odradek.storage.manager.disk_work import DiskWork
from odradek.storage.manager.doomed_logs import DoomedLogs
from odradek.storage.manager.hosted_log import HostedLog
from odradek.storage.manager.registry import LogRegistry
from odradek.storage.paths import Purpose, new_directory_name

MARK = "moving-away"


def is_moving_away(directory: Path) -> bool:
    """Whether a log of the same name, if there is one, has replaced this one."""
    return (directory / MARK).exists()


def stay(directory: Path) -> None:
    """There is no other.  Durable when it returns."""
    files.remove_durably(directory / MARK)


def unmarking(current: HostedLog) -> DiskWork:
    """It is not moved after all: nothing that is made elsewhere later on is to replace it."""

    def ended(is_done: bool) -> None:
        current.is_marked = not is_done

    return DiskWork(
        current.directory,
        f"unmarking {current.partition}",
        lambda: partial(stay, current.log.directory),
        ended=ended,
        is_pointless=lambda: current.is_deleted,
    )


class LogDirMove:
    """One log on its way."""

    def __init__(self, partition: TopicPartition, logs: LogRegistry) -> None:
        self._logs = logs
        self.current = logs.current[partition]
        self.future = logs.future[partition]

    def prepare(self, *, now_ms: int) -> list[DiskWork]:
        """To be carried out in this order."""
        current, future = self.current, self.future
        flush = future.plan_flush(now_ms=now_ms)
        mark, target = current.log.directory / MARK, str(future.directory.path).encode()

        def ended(is_done: bool) -> None:
            current.is_marked = is_done

        marking = DiskWork(
            current.directory,
            f"marking {current.partition}",
            lambda: partial(files.replace, mark, target),
            ended=ended,
            is_pointless=lambda: current.is_deleted,
        )
        return [marking] if flush is None else [flush, marking]

    @property
    def is_ready(self) -> bool:
        """Whether the copy has everything that the log has, on disk where that has it so."""
        log, copy = self.current.log, self.future.log
        return (
            self.current.is_marked
            and copy.end_offset == log.end_offset
            and copy.recovery_point >= log.recovery_point
        )

    def swap(self, doomed: DoomedLogs) -> None:
        """The copy becomes the log.  Only when it is named can the old one be deleted."""
        current, future = self.current, self.future
        with future as log:
            path = log.directory.with_name(str(new_directory_name(log.partition, Purpose.LOG)))
            files.rename(log.directory, path)
            _follow(log, path)
            # Records may have been deleted since the copy was told of a start.
            start_offset = min(current.log.start_offset, log.end_offset)
            seen = max(current.log.high_watermark, log.start_offset, start_offset)
            log.advance_high_watermark(min(seen, log.end_offset))
            log.advance_start(start_offset)
        self._logs.remove(current)
        self._logs.remove(future)
        future.is_future = False
        future.is_name_synced = False
        self._logs.add(future)
        doomed.doom(current, keep=True)

    def naming(self, checkpoints: CheckpointWork, *, ended: Callable[[bool], None]) -> DiskWork:
        """The copy's new name, and its offsets, survive a power cut."""
        future = self.future

        def named(is_done: bool) -> None:
            future.is_name_synced |= is_done
            ended(is_done)

        return checkpoints.work(
            future.directory,
            what=f"naming {future.partition}",
            first=partial(files.sync_directory, future.directory.path),
            ended=named,
        )


def _follow(log: Log, directory: Path) -> None:
    """The log's directory has been renamed."""
    log.directory = directory
    log.epochs.move(directory)
    log.producers.snapshots.directory = directory
    for segment in log.segments:
        segment.relocate(directory)
