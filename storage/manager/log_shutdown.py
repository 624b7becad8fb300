"""Closes all logs, so that the next start has nothing to recover.

Kafka: LogManager.shutdown.

The order guarantees that the clean shutdown marker is true: flush and close every log of a
directory, write its checkpoints, then write the marker; each step is durable before the next.  A
directory gets no marker if a step failed, if a log in it could not be opened, or if file
descriptors ran out.

Owner: the event loop; logs are closed where ``run_all`` runs the tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial

from odradek.storage import clean_shutdown
from odradek.storage.manager.checkpoint_writer import CheckpointWriter
from odradek.storage.manager.directory import LogDirectory, LogDirectoryOffline
from odradek.storage.manager.disk_task import execute
from odradek.storage.manager.hosted_log import HostedLog, sync_log_directory
from odradek.storage.manager.log_dir_loader import TaskRunner
from odradek.storage.open_segments import TooManyOpenFiles, retriable


@dataclass(frozen=True, slots=True)
class LogCloseResult:
    """The result of closing a log; ``index`` is the index of the task."""

    index: int
    error: OSError | TooManyOpenFiles | None = None


def close_log(index: int, hosted_log: HostedLog, now_ms: int) -> LogCloseResult:
    """Close a log that is no longer used.  May run on a disk thread."""
    try:
        with retriable():
            hosted_log.log.close(now_ms=now_ms)
            if not hosted_log.is_directory_synced:
                sync_log_directory(hosted_log.log.directory)
    except (OSError, TooManyOpenFiles) as error:
        return LogCloseResult(index, error)
    return LogCloseResult(index)


def close_logs(logs: Iterable[HostedLog], run_all: TaskRunner, *, now_ms: int) -> None:
    usable = [
        hosted_log
        for hosted_log in logs
        if hosted_log.is_usable and not _is_already_clean(hosted_log)
    ]
    with ExitStack() as uses:
        for directory in {hosted_log.directory for hosted_log in usable}:
            uses.enter_context(directory.in_use())
        _close_all(usable, run_all, now_ms)


def _close_all(logs: Sequence[HostedLog], run_all: TaskRunner, now_ms: int) -> None:
    tasks = [partial(close_log, index, hosted_log, now_ms) for index, hosted_log in enumerate(logs)]
    for closed in run_all(tasks):
        hosted_log = logs[closed.index]
        if isinstance(closed.error, OSError):
            hosted_log.directory.mark_offline(closed.error, f"closing {hosted_log.partition}")
        elif closed.error is not None:
            hosted_log.needs_recovery = True


def _is_already_clean(hosted_log: HostedLog) -> bool:
    """Return whether nothing has changed since a clean shutdown, as for most idle logs."""
    log = hosted_log.log
    return (
        not hosted_log.is_repaired
        and hosted_log.is_directory_synced
        and log.recovery_point
        == log.log_end_offset
        == log.producer_state_manager.last_snapshot_offset
        and log.leader_epoch_cache.is_flushed
        and not any(segment.is_open for segment in log.segments)
    )


def close_directory(
    directory: LogDirectory,
    checkpoint_writer: CheckpointWriter,
    *,
    is_clean: bool,
    broker_epoch: int,
) -> None:
    """Write the checkpoints of closed logs, and the marker if ``is_clean``."""
    with suppress(LogDirectoryOffline, TooManyOpenFiles), directory.guard("closing the directory"):
        execute(checkpoint_writer.write_task(directory))
        if is_clean and not checkpoint_writer.checkpoints_of(directory).has_unloadable_logs:
            clean_shutdown.write(directory.path, broker_epoch=broker_epoch)
