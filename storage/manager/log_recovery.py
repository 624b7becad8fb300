"""The recovery of one log, as a worker is given it and answers.

Owner: the worker, which may be another process; nobody else has the log open.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from odradek.protocol.errors import DecodeError, KafkaError
from odradek.storage.log_loader import Findings, LogPlace, recover


@dataclass(frozen=True, slots=True)
class Recovered:
    """What came back from a worker: ``number`` says from which."""

    number: int
    findings: Findings
    failure: OSError | KafkaError | DecodeError | None = None


class RecoveryProgress(Protocol):
    """Told where the recovery runs, before each segment of a log; a log may be all there is.

    If that is another process, it has to find its own way back: it is pickled.
    """

    def __call__(self, log_directory: Path, /, *, done: int, total: int) -> None: ...


def unnoticed(log_directory: Path, /, *, done: int, total: int) -> None:
    """Nobody wants to know."""


def recover_alone(number: int, place: LogPlace, progress: RecoveryProgress) -> Recovered:
    """May run in a worker process."""

    def report(done: int, total: int) -> None:
        progress(place.directory, done=done, total=total)

    try:
        return Recovered(number, recover(place, progress=report))
    except (OSError, KafkaError, DecodeError) as failure:
        return Recovered(number, Findings(), failure)
