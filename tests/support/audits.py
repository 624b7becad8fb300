"""A log directory that our engine wrote, to be damaged by hand, and what an audit finds in it.

Where batches are is read here with a struct of our own: not by what is tested.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from odradek.spark_jobs.audit.directories import plan
from odradek.spark_jobs.audit.findings import Finding
from odradek.spark_jobs.audit.partition_audit import audit
from odradek.storage.offset_checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS
from tests.support import logs

ABORTED, COMMITTED, OPEN = 101, 102, 103
_HEAD = struct.Struct(">qiib6xi")


class Found(NamedTuple):
    """A finding, as far as a test foretells it."""

    severity: str
    file: str  # its name only
    position: int | None
    offset: int | None


class BatchSeen(NamedTuple):
    position: int
    size: int
    base_offset: int
    last_offset: int


def findings(*paths: Path | str) -> list[Finding]:
    planned = plan(tuple(map(str, paths)), lambda topic, partition: True)
    audited = [audit(partition) for partition in planned.partitions]
    return [*planned.findings, *(each for audit in audited for each in audit.findings)]


def found_in(*paths: Path | str) -> list[Found]:
    return [
        Found(str(each.severity), each.file.rsplit("/", 1)[-1], each.position, each.offset)
        for each in findings(*paths)
    ]


class WrittenLog:
    """Some segments with transactions and two leader epochs, closed, and with its checkpoints."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partition = path / "events-0"
        log = logs.opened(
            self.partition, segment_bytes=2_000, segment_index_bytes=240, index_interval_bytes=150
        )
        for number in range(48):
            epoch = 0 if number < 24 else 3
            time = logs.NOW_MS + number * 7
            logs.append(log, b"v" * (number % 50), timestamp=time, leader_epoch=epoch)
            self._transactions(log, number, epoch)
        self.end_offset = log.log_end_offset
        log.close(now_ms=logs.NOW_MS)
        self.set_checkpoints(self.end_offset)

    def _transactions(self, log: logs.Log, number: int, epoch: int) -> None:
        for producer_id, every in ((ABORTED, 6), (COMMITTED, 8), (OPEN, 40)):
            at = number % every
            if at in (1, 3):
                logs.append(
                    log,
                    b"in a transaction",
                    timestamp=logs.NOW_MS,
                    leader_epoch=epoch,
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=number // every * 2 + at // 2,
                    is_transactional=True,
                )
            elif at == 5 and producer_id != OPEN:
                logs.end_transaction(
                    log,
                    producer_id=producer_id,
                    commit=producer_id == COMMITTED,
                    leader_epoch=epoch,
                )

    def set_checkpoints(self, offset: int) -> None:
        HIGH_WATERMARKS.write(self.path, {logs.PARTITION: offset})
        RECOVERY_POINTS.write(self.path, {logs.PARTITION: offset})

    def files(self, ending: str) -> list[Path]:
        return sorted(self.partition.glob(f"*{ending}"))

    @property
    def logs(self) -> list[Path]:
        return self.files(".log")

    def batches(self, path: Path) -> list[BatchSeen]:
        return list(batches_in(path.read_bytes()))


def batches_in(content: bytes) -> Iterable[BatchSeen]:
    position = 0
    while position < len(content):
        base_offset, length, _, _, delta = _HEAD.unpack_from(content, position)
        yield BatchSeen(position, length + 12, base_offset, base_offset + delta)
        position += length + 12


def overwrite(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


def flip(path: Path, position: int) -> None:
    overwrite(path, position, bytes([path.read_bytes()[position] ^ 0xFF]))
