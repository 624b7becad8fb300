"""The audit of one partition in one log directory: every file of it against its batches.

    batches     checksums, offsets, records; what should be there is there
    indexes     index_checks.py, transaction_checks.py
    producers   producer_checks.py
    epochs      epoch_checks.py

What leads into damage that has been found is not found again: one flipped byte is one finding.

A broker may be at work.  So indexes are read before the batches: these are written first, and an
index read later could be ahead.  If segments were replaced or removed while there were findings,
everything is looked at again.

Owner: whoever audits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from odradek.spark_jobs.audit.batch_rows import (
    ROW,
    Lost,
    Rows,
    SegmentBatches,
    lost_in,
    read_segment,
)
from odradek.spark_jobs.audit.directories import Replica, looked_at_again
from odradek.spark_jobs.audit.epoch_checks import epoch_problems
from odradek.spark_jobs.audit.findings import Finding, Problem, Severity, first_of
from odradek.spark_jobs.audit.index_checks import offset_index_problems, time_index_problems
from odradek.spark_jobs.audit.producer_checks import snapshot_problems
from odradek.spark_jobs.audit.transaction_checks import (
    IndexContent,
    KnownLog,
    history,
    transaction_index_problems,
)
from odradek.spark_jobs.scan.catalog import PartitionLog, Segment
from odradek.spark_jobs.scan.file_access import joined, parted, read_whole
from odradek.spark_jobs.scan.walk import OFFSET_MAX
from odradek.storage import leader_epochs
from odradek.storage.checkpoint import CheckpointDamaged
from odradek.storage.paths import Content, file_named
from odradek.storage.producers.snapshot import ProducerSnapshotDamaged, decode

#: How often a log is looked at that keeps changing.
LOOKS = 3


@dataclass(slots=True)
class AuditedLog:
    """What was found, and what is left of the batches to compare with other replicas."""

    replica: Replica
    findings: list[Finding] = field(default_factory=list)
    segments: list[SegmentBatches] = field(default_factory=list)
    lost: Lost = field(default_factory=Lost)

    @property
    def log(self) -> PartitionLog:
        return self.replica.log

    @property
    def rows(self) -> Rows:
        """Of all segments."""
        if not self.segments:
            return np.empty(0, dtype=ROW)
        return np.concatenate([segment.rows for segment in self.segments])

    @property
    def next_offset(self) -> int:
        """Where the log ends."""
        return self.segments[-1].next_offset if self.segments else self.log.log_start_offset

    @property
    def is_compacted(self) -> bool:
        """Whether records have been removed from between others."""
        if self.replica.is_compacted:
            return True
        for segment in self.segments:
            rows = segment.rows
            counted = rows[rows["magic"] == 2]
            if (counted["count"] != counted["last_offset"] - counted["base_offset"] + 1).any():
                return True
            gaps = rows["base_offset"][1:] != rows["last_offset"][:-1] + 1
            is_lost = self.lost.have(rows["last_offset"][:-1] + 1)
            if (gaps & ~is_lost).any():
                return True
        return False


@dataclass(frozen=True, slots=True)
class _IndexFiles:
    """As they were before the batches were read; None where there is no file."""

    offsets: bytes | None
    times: bytes | None
    aborted: bytes | None


def audit_log(replica: Replica) -> AuditedLog:
    """Where compaction or retention were at work meanwhile, files did not fit: look again."""
    for _ in range(LOOKS - 1):
        audited = _Audit(replica).run()
        if not audited.findings:
            return audited
        current = looked_at_again(replica)
        if current is None or _files(current) == _files(replica):
            return audited
        replica = current
    return _Audit(replica).run()


def _files(replica: Replica) -> list[tuple[str, int]]:
    """What only changes with compaction and retention: the last segment grows all the time."""
    segments = replica.log.segments
    sealed = [(each.path, each.size_bytes) for each in segments[:-1]]
    return [*sealed, *((each.path, -1) for each in segments[-1:])]


class _Audit:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._log = replica.log
        self._audited = AuditedLog(replica)
        self._indexes: list[_IndexFiles] = []

    def run(self) -> AuditedLog:
        audited = self._audited
        epochs = self._read(self._epochs_path)
        snapshots = {path: self._read(path) for path in self._log.snapshots}
        for segment in self._log.segments:
            self._read_segment(segment)
        audited.lost = Lost(self._lost())
        self._check_ends()
        audited.lost = Lost([*audited.lost.ranges, *self._gaps()])
        rows = audited.rows
        told = history(rows, audited.lost, [_offset_of(path) for path in snapshots])
        known = KnownLog(rows, audited.lost, told, self._log.log_start_offset)
        for files, batches in zip(self._indexes, audited.segments, strict=True):
            self._check_indexes(files, batches, known)
        for path, content in snapshots.items():
            self._check_snapshot(path, content, known)
        self._check_epochs(epochs, rows)
        return audited

    @property
    def _epochs_path(self) -> str:
        return joined(self._log.directory, leader_epochs.FILE_NAME)

    def _read(self, path: str) -> bytes | None:
        return read_whole(self._log.system, path)

    def _found(self, severity: Severity, path: str, problem: Problem) -> None:
        log = self._log
        finding = Finding(severity, log.topic, log.partition, path, *problem)
        self._audited.findings.append(finding)

    # Batches

    def _read_segment(self, segment: Segment) -> None:
        contents = (Content.OFFSET_INDEX, Content.TIME_INDEX, Content.TRANSACTION_INDEX)
        files = _IndexFiles(*(self._read(segment.beside(content)) for content in contents))
        try:
            with self._log.system.open(segment.path) as file:
                batches = read_segment(file, self._log, segment, self._replica.complete_to)
        except FileNotFoundError:
            what = "gone since the audit began, as by retention or compaction: audit it again"
            self._found(Severity.WARNING, segment.path, Problem(None, segment.base_offset, what))
            return
        self._audited.segments.append(batches)
        self._indexes.append(files)
        watermark = self._log.high_watermark
        for flaw in (*batches.flaws, *batches.unreadable):
            is_readable = watermark is None or flaw.first_offset < watermark
            severity = Severity.ERROR if is_readable else Severity.WARNING
            what = f"{flaw.reason} (up to byte {flaw.end_position})"
            self._found(severity, segment.path, Problem(flaw.position, flaw.first_offset, what))

    def _lost(self) -> Iterator[tuple[int, int]]:
        for batches in self._audited.segments:
            yield from lost_in(batches)
        bases = [segment.base_offset for segment in self._log.segments]
        for name in self._replica.missing:
            yield (
                name.offset,
                min((base for base in bases if base > name.offset), default=OFFSET_MAX),
            )
        complete_to = self._replica.complete_to
        if complete_to is not None and self._audited.next_offset < complete_to:
            yield self._audited.next_offset, OFFSET_MAX

    def _check_ends(self) -> None:
        """What the checkpoints and the indexes say was there."""
        for name in self._replica.missing:
            path = joined(self._log.directory, str(name))
            what = "missing, though indexes of its segment are there"
            self._found(Severity.ERROR, path, Problem(None, name.offset, what))
        end, complete_to = self._audited.next_offset, self._replica.complete_to
        segments = self._audited.segments
        if complete_to is None or end >= complete_to or self._replica.missing:
            return
        if segments and any(flaw.first_offset >= end for flaw in segments[-1].flaws):
            return  # told already, with what is there instead
        path = segments[-1].segment.path if segments else self._log.directory
        position = segments[-1].segment.size_bytes if segments else None
        what = f"the log ends here, but the checkpoints say that it went on up to {complete_to}"
        self._found(Severity.ERROR, path, Problem(position, end, what))

    def _gaps(self) -> Iterator[tuple[int, int]]:
        """Between segments: compaction leaves them, and so does whoever removes a file."""
        audited = self._audited
        if audited.is_compacted:
            return
        for before, after in pairwise(audited.segments):
            start, end = before.next_offset, after.segment.base_offset
            if start < end and start >= self._log.log_start_offset and not audited.lost.has(start):
                what = f"offsets {start} to {end - 1} are missing before it"
                what += ", and nothing says that the log was compacted"
                self._found(Severity.WARNING, after.segment.path, Problem(0, start, what))
                yield start, end

    # What stands beside them

    def _check_indexes(self, files: _IndexFiles, batches: SegmentBatches, known: KnownLog) -> None:
        segment, lost = batches.segment, known.lost
        for content, stored, problems in (
            (Content.OFFSET_INDEX, files.offsets, offset_index_problems),
            (Content.TIME_INDEX, files.times, time_index_problems),
        ):
            path = segment.beside(content)
            if stored is None:
                problem = Problem(None, segment.base_offset, "missing")
                self._found(Severity.WARNING, path, problem)
                continue
            for problem in first_of(problems(stored, batches, lost)):
                self._found(Severity.WARNING, path, problem)
        path = segment.beside(Content.TRANSACTION_INDEX)
        # It is written to after the batches, so there may be more in it by now.
        index = IndexContent(self._read(path) or files.aborted or b"", len(files.aborted or b""))
        for problem in first_of(transaction_index_problems(index, batches, known)):
            self._found(Severity.ERROR, path, problem)

    def _check_snapshot(self, path: str, content: bytes | None, known: KnownLog) -> None:
        if content is None:  # taken away since the directory was listed
            return
        offset = _offset_of(path)
        try:
            states = decode(content, path=Path(path))
        except ProducerSnapshotDamaged as damaged:
            self._found(Severity.WARNING, path, Problem(0, offset, damaged.why))
            return
        end = self._audited.next_offset
        if offset > end and not known.lost.has(end):
            what = f"it is about offset {offset}, but the log ends with {end}"
            self._found(Severity.WARNING, path, Problem(None, offset, what))
            return
        for problem in first_of(snapshot_problems(states, offset, known)):
            self._found(Severity.ERROR, path, problem)

    def _check_epochs(self, content: bytes | None, rows: Rows) -> None:
        path, end = self._epochs_path, self._audited.next_offset
        try:
            entries = leader_epochs.decode(content or b"", path=Path(path))
        except CheckpointDamaged as damaged:
            what = f"line {damaged.line}: {damaged.why}"
            self._found(Severity.WARNING, path, Problem(None, None, what))
            return
        next_offset = OFFSET_MAX if self._audited.lost.has(end) else end
        synced_to = self._replica.recovery_point or 0
        for problem in epoch_problems(entries, rows, synced_to=synced_to, next_offset=next_offset):
            self._found(Severity.WARNING, path, problem)


def _offset_of(path: str) -> int:
    name = file_named(parted(path)[1])
    assert name is not None, path
    return name.offset
