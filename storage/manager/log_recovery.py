"""The recovery of one log in a worker, and its result.

Owner: the worker, which may be another process; only the worker has the log open.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from odradek.protocol.errors import DecodeError, KafkaError
from odradek.storage.log_loader import LoadLogParams, LogLoadReport, recover_log


@dataclass(frozen=True, slots=True)
class LogRecoveryResult:
    """The result from a worker; ``index`` is the index of the task."""

    index: int
    report: LogLoadReport
    error: OSError | KafkaError | DecodeError | None = None


class RecoveryProgress(Protocol):
    """Called where the recovery runs, before each segment of a log, as there may be only one log.

    In another process it must report to the broker by its own means: it is pickled.
    """

    def __call__(self, log_directory: Path, /, *, done: int, total: int) -> None: ...


def ignore_progress(log_directory: Path, /, *, done: int, total: int) -> None:
    """The default: no callback."""


def recover_in_worker(
    index: int, params: LoadLogParams, progress: RecoveryProgress
) -> LogRecoveryResult:
    """Recover a log and return errors as a result.  May run in a worker process."""

    def report_progress(done: int, total: int) -> None:
        progress(params.directory, done=done, total=total)

    try:
        return LogRecoveryResult(index, recover_log(params, progress=report_progress))
    except (OSError, KafkaError, DecodeError) as error:
        return LogRecoveryResult(index, LogLoadReport(), error)
