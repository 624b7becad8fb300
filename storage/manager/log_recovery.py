"""The recovery of one log, as a worker is given it and answers.

Owner: the worker, which may be another process; nobody else has the log open.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from odradek.protocol.errors import DecodeError, KafkaError
from odradek.storage.log_loader import LoadLogParams, LogLoadReport, recover_log


@dataclass(frozen=True, slots=True)
class LogRecoveryResult:
    """What came back from a worker: ``number`` says from which."""

    index: int
    report: LogLoadReport
    error: OSError | KafkaError | DecodeError | None = None


class RecoveryProgress(Protocol):
    """Told where the recovery runs, before each segment of a log; a log may be all there is.

    If that is another process, it has to find its own way back: it is pickled.
    """

    def __call__(self, log_directory: Path, /, *, done: int, total: int) -> None: ...


def ignore_progress(log_directory: Path, /, *, done: int, total: int) -> None:
    """Nobody wants to know."""


def recover_in_worker(
    index: int, params: LoadLogParams, progress: RecoveryProgress
) -> LogRecoveryResult:
    """May run in a worker process."""

    def report_progress(done: int, total: int) -> None:
        progress(params.directory, done=done, total=total)

    try:
        return LogRecoveryResult(index, recover_log(params, progress=report_progress))
    except (OSError, KafkaError, DecodeError) as error:
        return LogRecoveryResult(index, LogLoadReport(), error)
