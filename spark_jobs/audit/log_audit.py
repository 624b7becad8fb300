"""Audit of one replica of a partition: every file of its log is compared with the batches.

    batches     checksums, offsets, records; no batch is missing
    indexes     index_checks.py, transaction_checks.py
    producers   producer_checks.py
    epochs      epoch_checks.py

Each damage is reported once: a file that refers to a damaged batch is not a second finding, and one
flipped byte is one finding.

A broker may be running.  Therefore indexes are read before the batches: the broker writes batches
first, so an index that is read later could be ahead of them.  If there are findings, and segments
were replaced or deleted meanwhile, the audit of the log is repeated.

Owner: the task that audits the partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from odradek.spark_jobs.audit.batch_rows import (
    BATCH_ROW_DTYPE,
    BatchRows,
    LostOffsets,
    SegmentBatches,
    find_lost_ranges,
    read_segment,
)
from odradek.spark_jobs.audit.directories import Replica, reload_replica
from odradek.spark_jobs.audit.epoch_checks import check_leader_epochs
from odradek.spark_jobs.audit.findings import Finding, Problem, Severity, limit_problems
from odradek.spark_jobs.audit.index_checks import check_offset_index, check_time_index
from odradek.spark_jobs.audit.producer_checks import check_producer_snapshot
from odradek.spark_jobs.audit.transaction_checks import (
    ReferenceLog,
    TransactionIndexContent,
    build_transaction_history,
    check_transaction_index,
)
from odradek.spark_jobs.scan.catalog import PartitionLog, Segment
from odradek.spark_jobs.scan.file_access import join_path, read_file, split_path
from odradek.spark_jobs.scan.segment_reader import OFFSET_MAX
from odradek.storage import leader_epoch_file_cache
from odradek.storage.checkpoint import CorruptCheckpoint
from odradek.storage.paths import LogFileType, parse_file_name
from odradek.storage.producer_state.snapshot import CorruptSnapshot, decode

#: How often a log is audited if its segments keep changing.
ATTEMPTS_MAX = 3


@dataclass(slots=True)
class AuditedLog:
    """The findings, and the rows of the batches to compare with other replicas."""

    replica: Replica
    findings: list[Finding] = field(default_factory=list)
    segments: list[SegmentBatches] = field(default_factory=list)
    lost_offsets: LostOffsets = field(default_factory=LostOffsets)

    @property
    def log(self) -> PartitionLog:
        return self.replica.log

    @property
    def rows(self) -> BatchRows:
        """The batches of all segments."""
        if not self.segments:
            return np.empty(0, dtype=BATCH_ROW_DTYPE)
        return np.concatenate([segment.rows for segment in self.segments])

    @property
    def log_end_offset(self) -> int:
        return self.segments[-1].next_offset if self.segments else self.log.log_start_offset

    @property
    def is_compacted(self) -> bool:
        """Whether compaction has removed records from the log."""
        if self.replica.is_compacted:
            return True
        for segment in self.segments:
            rows = segment.rows
            counted = rows[rows["magic"] == 2]
            if (counted["count"] != counted["last_offset"] - counted["base_offset"] + 1).any():
                return True
            gaps = rows["base_offset"][1:] != rows["last_offset"][:-1] + 1
            is_lost = self.lost_offsets.contains_each(rows["last_offset"][:-1] + 1)
            if (gaps & ~is_lost).any():
                return True
        return False


@dataclass(frozen=True, slots=True)
class _IndexFiles:
    """Contents of the index files before the batches were read; None for a missing file."""

    offset_index: bytes | None
    time_index: bytes | None
    transaction_index: bytes | None


def audit_log(replica: Replica) -> AuditedLog:
    """Audit again if compaction or retention changed files meanwhile, so that they disagreed."""
    for _ in range(ATTEMPTS_MAX - 1):
        audited = _LogAuditor(replica).run()
        if not audited.findings:
            return audited
        current = reload_replica(replica)
        if current is None or _file_signature(current) == _file_signature(replica):
            return audited
        replica = current
    return _LogAuditor(replica).run()


def _file_signature(replica: Replica) -> list[tuple[str, int]]:
    """Return what only compaction and retention change: not the size of the active segment."""
    segments = replica.log.segments
    sealed = [(segment.path, segment.size_bytes) for segment in segments[:-1]]
    return [*sealed, *((segment.path, -1) for segment in segments[-1:])]


class _LogAuditor:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._log = replica.log
        self._audited_log = AuditedLog(replica)
        self._index_files: list[_IndexFiles] = []

    def run(self) -> AuditedLog:
        audited = self._audited_log
        epochs = self._read(self._leader_epoch_path)
        snapshots = {path: self._read(path) for path in self._log.producer_snapshots}
        for segment in self._log.segments:
            self._read_segment(segment)
        audited.lost_offsets = LostOffsets(self._find_lost_ranges())
        self._check_log_end()
        audited.lost_offsets = LostOffsets(
            [*audited.lost_offsets.ranges, *self._find_segment_gaps()]
        )
        rows = audited.rows
        history = build_transaction_history(
            rows, audited.lost_offsets, [_snapshot_offset(path) for path in snapshots]
        )
        reference = ReferenceLog(rows, audited.lost_offsets, history, self._log.log_start_offset)
        for files, batches in zip(self._index_files, audited.segments, strict=True):
            self._check_indexes(files, batches, reference)
        for path, content in snapshots.items():
            self._check_snapshot(path, content, reference)
        self._check_leader_epochs(epochs, rows)
        return audited

    @property
    def _leader_epoch_path(self) -> str:
        return join_path(self._log.directory, leader_epoch_file_cache.FILE_NAME)

    def _read(self, path: str) -> bytes | None:
        return read_file(self._log.file_system, path)

    def _add_finding(self, severity: Severity, path: str, problem: Problem) -> None:
        log = self._log
        finding = Finding(severity, log.topic, log.partition, path, *problem)
        self._audited_log.findings.append(finding)

    # Batches

    def _read_segment(self, segment: Segment) -> None:
        types = (LogFileType.OFFSET_INDEX, LogFileType.TIME_INDEX, LogFileType.TRANSACTION_INDEX)
        files = _IndexFiles(*(self._read(segment.sibling_path(file_type)) for file_type in types))
        try:
            with self._log.file_system.open(segment.path) as file:
                batches = read_segment(file, self._log, segment, self._replica.expected_end_offset)
        except FileNotFoundError:
            what = "deleted since the audit began, as by retention or compaction: repeat the audit"
            self._add_finding(
                Severity.WARNING, segment.path, Problem(None, segment.base_offset, what)
            )
            return
        self._audited_log.segments.append(batches)
        self._index_files.append(files)
        watermark = self._log.high_watermark
        for damaged in (*batches.damaged_ranges, *batches.unreadable_batches):
            is_visible = watermark is None or damaged.first_offset < watermark
            severity = Severity.ERROR if is_visible else Severity.WARNING
            what = f"{damaged.reason} (up to byte {damaged.end_position})"
            self._add_finding(
                severity, segment.path, Problem(damaged.position, damaged.first_offset, what)
            )

    def _find_lost_ranges(self) -> Iterator[tuple[int, int]]:
        for batches in self._audited_log.segments:
            yield from find_lost_ranges(batches)
        bases = [segment.base_offset for segment in self._log.segments]
        for name in self._replica.missing_log_files:
            yield (
                name.offset,
                min((base for base in bases if base > name.offset), default=OFFSET_MAX),
            )
        expected_end = self._replica.expected_end_offset
        if expected_end is not None and self._audited_log.log_end_offset < expected_end:
            yield self._audited_log.log_end_offset, OFFSET_MAX

    def _check_log_end(self) -> None:
        """Check that the log has all that the checkpoints and the index files imply."""
        for name in self._replica.missing_log_files:
            path = join_path(self._log.directory, str(name))
            what = "missing, although index files of its segment exist"
            self._add_finding(Severity.ERROR, path, Problem(None, name.offset, what))
        end, expected_end = self._audited_log.log_end_offset, self._replica.expected_end_offset
        segments = self._audited_log.segments
        if expected_end is None or end >= expected_end or self._replica.missing_log_files:
            return
        if segments and any(damaged.first_offset >= end for damaged in segments[-1].damaged_ranges):
            return  # already reported as damage
        path = segments[-1].segment.path if segments else self._log.directory
        position = segments[-1].segment.size_bytes if segments else None
        what = f"the log ends here, but the checkpoints say that it reached {expected_end}"
        self._add_finding(Severity.ERROR, path, Problem(position, end, what))

    def _find_segment_gaps(self) -> Iterator[tuple[int, int]]:
        """Report gaps that deleted files leave between segments, unless the log is compacted."""
        audited = self._audited_log
        if audited.is_compacted:
            return
        for before, after in pairwise(audited.segments):
            start, end = before.next_offset, after.segment.base_offset
            if (
                start < end
                and start >= self._log.log_start_offset
                and not audited.lost_offsets.contains(start)
            ):
                what = f"offsets {start} to {end - 1} before this segment are missing"
                what += ", although the log is not compacted"
                self._add_finding(Severity.WARNING, after.segment.path, Problem(0, start, what))
                yield start, end

    # Files beside the batches

    def _check_indexes(
        self, index_files: _IndexFiles, batches: SegmentBatches, reference: ReferenceLog
    ) -> None:
        segment, lost = batches.segment, reference.lost_offsets
        for file_type, content, check in (
            (LogFileType.OFFSET_INDEX, index_files.offset_index, check_offset_index),
            (LogFileType.TIME_INDEX, index_files.time_index, check_time_index),
        ):
            path = segment.sibling_path(file_type)
            if content is None:
                problem = Problem(None, segment.base_offset, "missing")
                self._add_finding(Severity.WARNING, path, problem)
                continue
            for problem in limit_problems(check(content, batches, lost)):
                self._add_finding(Severity.WARNING, path, problem)
        path = segment.sibling_path(LogFileType.TRANSACTION_INDEX)
        # The broker writes the transaction index after the batches: read the entries added since.
        index = TransactionIndexContent(
            self._read(path) or index_files.transaction_index or b"",
            len(index_files.transaction_index or b""),
        )
        for problem in limit_problems(check_transaction_index(index, batches, reference)):
            self._add_finding(Severity.ERROR, path, problem)

    def _check_snapshot(self, path: str, content: bytes | None, reference: ReferenceLog) -> None:
        if content is None:  # deleted since the directory was listed
            return
        offset = _snapshot_offset(path)
        try:
            states = decode(content, path=Path(path))
        except CorruptSnapshot as error:
            self._add_finding(Severity.WARNING, path, Problem(0, offset, error.reason))
            return
        end = self._audited_log.log_end_offset
        if offset > end and not reference.lost_offsets.contains(end):
            what = f"the snapshot is of offset {offset}, but the log ends at {end}"
            self._add_finding(Severity.WARNING, path, Problem(None, offset, what))
            return
        for problem in limit_problems(check_producer_snapshot(states, offset, reference)):
            self._add_finding(Severity.ERROR, path, problem)

    def _check_leader_epochs(self, content: bytes | None, rows: BatchRows) -> None:
        path, end = self._leader_epoch_path, self._audited_log.log_end_offset
        try:
            entries = leader_epoch_file_cache.decode(content or b"", path=Path(path))
        except CorruptCheckpoint as error:
            what = f"line {error.line}: {error.reason}"
            self._add_finding(Severity.WARNING, path, Problem(None, None, what))
            return
        log_end_offset = OFFSET_MAX if self._audited_log.lost_offsets.contains(end) else end
        recovery_point = self._replica.recovery_point or 0
        for problem in check_leader_epochs(
            entries, rows, recovery_point=recovery_point, log_end_offset=log_end_offset
        ):
            self._add_finding(Severity.WARNING, path, problem)


def _snapshot_offset(path: str) -> int:
    name = parse_file_name(split_path(path)[1])
    assert name is not None, path
    return name.offset
