"""Closing all logs, so that the next start finds nothing to recover.

The order makes the marker true: every log of a directory is synced and closed, then its checkpoints
are written, then the marker, each durable before the next.  A directory in which anything fails,
or where a log could not even be opened, gets no marker; nor does one that wanted for descriptors.

Owner: the event loop; logs are closed wherever the caller lets them be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial

from odradek.storage import clean_shutdown
from odradek.storage.manager.checkpoint_work import CheckpointWork
from odradek.storage.manager.directory import LogDirectory, LogDirectoryOffline
from odradek.storage.manager.disk_work import carry_out
from odradek.storage.manager.hosted_log import HostedLog, sync_names
from odradek.storage.manager.loading import RunAll
from odradek.storage.open_segments import OutOfDescriptors, retriable


@dataclass(frozen=True, slots=True)
class Closed:
    """What became of a log: ``number`` says of which."""

    number: int
    failure: OSError | OutOfDescriptors | None = None


def close_alone(number: int, hosted: HostedLog, now_ms: int) -> Closed:
    """May run on a disk thread; nobody else uses the log any more."""
    try:
        with retriable():
            hosted.log.close(now_ms=now_ms)
            if not hosted.is_name_synced:
                sync_names(hosted.log.directory)
    except (OSError, OutOfDescriptors) as failure:
        return Closed(number, failure)
    return Closed(number)


def close_logs(logs: Iterable[HostedLog], run_all: RunAll, *, now_ms: int) -> None:
    usable = [hosted for hosted in logs if hosted.is_usable and not _is_closed(hosted)]
    with ExitStack() as uses:
        for directory in {hosted.directory for hosted in usable}:
            uses.enter_context(directory.in_use())
        _close_all(usable, run_all, now_ms)


def _close_all(usable: Sequence[HostedLog], run_all: RunAll, now_ms: int) -> None:
    tasks = [partial(close_alone, number, hosted, now_ms) for number, hosted in enumerate(usable)]
    for closed in run_all(tasks):
        hosted = usable[closed.number]
        if isinstance(closed.failure, OSError):
            hosted.directory.fail(closed.failure, f"closing {hosted.partition}")
        elif closed.failure is not None:
            hosted.is_in_doubt = True


def _is_closed(hosted: HostedLog) -> bool:
    """Whether everything is as it was found after a clean shutdown: most logs are idle."""
    log = hosted.log
    return (
        not hosted.is_mended
        and hosted.is_name_synced
        and log.recovery_point == log.end_offset == log.producers.snapshot_offset
        and log.epochs.is_flushed
        and not any(segment.is_open for segment in log.segments)
    )


def close_directory(
    directory: LogDirectory, checkpoints: CheckpointWork, *, is_clean: bool, broker_epoch: int
) -> None:
    """Its logs are closed; ``is_clean`` if there are no others that a start would find."""
    with suppress(LogDirectoryOffline, OutOfDescriptors), directory.guard("closing it"):
        carry_out(checkpoints.work(directory))
        if is_clean and not checkpoints.of(directory).has_refused_logs:
            clean_shutdown.write(directory.path, broker_epoch=broker_epoch)
