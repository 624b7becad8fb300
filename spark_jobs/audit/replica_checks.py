"""Comparison of the batches of a partition's replicas.

A follower has its leader's batches byte by byte.  So a batch must have the same offsets, checksum
and leader epoch in all replicas, up to the lowest high watermark: batches above it may still be
truncated.  Where replicas differ, the majority is right; in a tie, the replica with the highest
high watermark.

Each broker compacts on its own, which leaves fewer records in a batch, or removes it.  If one of
the logs is compacted, batches with the same base offset may differ: then the records that both
still have are compared, and a batch that only some replicas have is not a finding.

Owner: the task that audits the partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.record import Record
from odradek.protocol.records.record_set import batch_at
from odradek.spark_jobs.audit.batch_rows import BATCH_ROW_DTYPE, BatchRows, LostOffsets
from odradek.spark_jobs.audit.findings import PROBLEMS_MAX, Finding, Severity
from odradek.spark_jobs.audit.log_audit import AuditedLog
from odradek.spark_jobs.scan.file_access import file_system_for
from odradek.spark_jobs.scan.varints import Int64Array

#: Fields that identify a batch.  The checksum covers all but offset, length and leader epoch.
_IDENTITY_FIELDS = ("base_offset", "last_offset", "size", "checksum", "leader_epoch", "magic")

BatchIdentity = tuple[int, ...]


class _ReplicaBatches(NamedTuple):
    """The batches of one replica that all replicas should have."""

    audited_log: AuditedLog
    paths: list[str]
    segment_indexes: Int64Array  # index into paths, for each batch
    rows: BatchRows

    def identity(self, index: int) -> BatchIdentity:
        return tuple(int(self.rows[name][index]) for name in _IDENTITY_FIELDS)

    def read_batch(self, index: int) -> bytes:
        path = self.paths[int(self.segment_indexes[index])]
        content = bytearray(int(self.rows["size"][index]))
        with file_system_for(path).open(path) as file:
            file.read_into(memoryview(content), int(self.rows["position"][index]))
        return bytes(content)

    def build_finding(self, index: int, what: str) -> Finding:
        log = self.audited_log.log
        return Finding(
            Severity.ERROR,
            log.topic,
            log.partition,
            self.paths[int(self.segment_indexes[index])],
            int(self.rows["position"][index]),
            int(self.rows["base_offset"][index]),
            what,
        )


def compare_replicas(audited_logs: Sequence[AuditedLog]) -> Iterator[Finding]:
    """``audited_logs`` are replicas of one partition, the highest high watermark first."""
    if len(audited_logs) < 2:
        return
    start = max(audited.log.log_start_offset for audited in audited_logs)
    end = min(_comparable_end_offset(audited) for audited in audited_logs)
    replicas = [_collect_batches(audited, start, end) for audited in audited_logs]
    lost = LostOffsets(span for audited in audited_logs for span in audited.lost_offsets.ranges)
    is_compacted = any(audited.is_compacted for audited in audited_logs)
    findings = (
        finding
        for offset in _find_differing_offsets(replicas, lost)
        for finding in _compare_batch(offset, replicas, is_compacted=is_compacted)
    )
    yield from islice(findings, PROBLEMS_MAX)
    last = next(findings, None)
    if last is not None:
        yield replace(last, what=f"{last.what}; the comparison of the replicas ends here")


def _comparable_end_offset(audited_log: AuditedLog) -> int:
    watermark = audited_log.log.high_watermark
    return audited_log.log_end_offset if watermark is None else watermark


def _collect_batches(
    audited_log: AuditedLog, start_offset: int, end_offset: int
) -> _ReplicaBatches:
    indexes, tables = [], []
    for index, segment in enumerate(audited_log.segments):
        rows = segment.rows
        rows = rows[(rows["base_offset"] >= start_offset) & (rows["last_offset"] < end_offset)]
        tables.append(rows)
        indexes.append(np.full(len(rows), index))
    paths = [segment.segment.path for segment in audited_log.segments]
    return _ReplicaBatches(
        audited_log,
        paths,
        np.concatenate([np.empty(0, dtype=np.int64), *indexes]),
        np.concatenate([np.empty(0, dtype=BATCH_ROW_DTYPE), *tables]),
    )


def _find_differing_offsets(
    replicas: Sequence[_ReplicaBatches], lost_offsets: LostOffsets
) -> list[int]:
    """Return the base offsets of batches that are not the same in all replicas."""
    first = replicas[0].rows
    differing: set[int] = set()
    for replica in replicas[1:]:
        rows = replica.rows
        # Compare whole columns: most batches are equal, and an object for each would be slow.
        common, first_indexes, indexes = np.intersect1d(
            first["base_offset"], rows["base_offset"], assume_unique=True, return_indices=True
        )
        is_same = np.ones(len(common), dtype=np.bool_)
        for name in _IDENTITY_FIELDS:
            is_same &= first[name][first_indexes] == rows[name][indexes]
        differing.update(common[~is_same].tolist())
        differing.update(np.setxor1d(first["base_offset"], rows["base_offset"], True).tolist())
    offsets = np.array(sorted(differing), dtype=np.int64)
    remaining: list[int] = offsets[~lost_offsets.contains_each(offsets)].tolist()
    return remaining


def _compare_batch(
    offset: int, replicas: Sequence[_ReplicaBatches], *, is_compacted: bool
) -> Iterator[Finding]:
    indexes = {
        number: index
        for number, replica in enumerate(replicas)
        if (index := _find_batch_index(replica, offset)) >= 0
    }
    votes = Counter(
        {number: replicas[number].identity(index) for number, index in indexes.items()}.values()
    )
    most_votes = max(votes.values())
    chosen = next(n for n, at in indexes.items() if votes[replicas[n].identity(at)] == most_votes)
    reference = replicas[chosen]
    for number, replica in enumerate(replicas):
        if number not in indexes:
            if not is_compacted:
                yield _missing_batch_finding(replica, reference, indexes[chosen])
            continue
        index = indexes[number]
        if replica.identity(index) != reference.identity(indexes[chosen]):
            what = _describe_difference(
                reference, indexes[chosen], replica, index, is_compacted=is_compacted
            )
            if what is not None:
                other = reference.build_finding(indexes[chosen], "")
                what = f"{what}, unlike {other.file} at byte {other.position}"
                yield replica.build_finding(index, what)


def _find_batch_index(replica: _ReplicaBatches, offset: int) -> int:
    """Return the index of the batch with this base offset, or -1."""
    offsets = replica.rows["base_offset"]
    index = int(np.searchsorted(offsets, offset))
    return index if index < len(offsets) and offsets[index] == offset else -1


def _missing_batch_finding(
    replica: _ReplicaBatches, reference: _ReplicaBatches, index: int
) -> Finding:
    """Name the file that should contain the batch; a missing batch has no position."""
    other = reference.build_finding(index, "")
    base_offsets = [segment.segment.base_offset for segment in replica.audited_log.segments]
    below = [number for number, base in enumerate(base_offsets) if base <= (other.offset or 0)]
    file = replica.paths[below[-1]] if below else replica.audited_log.log.directory
    what = f"no batch starts with offset {other.offset}, unlike {other.file} at byte "
    return Finding(
        Severity.ERROR,
        other.topic,
        other.partition,
        file,
        None,
        other.offset,
        f"{what}{other.position}",
    )


def _describe_difference(
    reference: _ReplicaBatches,
    reference_index: int,
    replica: _ReplicaBatches,
    index: int,
    *,
    is_compacted: bool,
) -> str | None:
    """Return None if the batches differ only by records that compaction has removed."""
    if reference.rows["leader_epoch"][reference_index] != replica.rows["leader_epoch"][index]:
        return (
            f"leader epoch {replica.rows['leader_epoch'][index]} instead of "
            f"{reference.rows['leader_epoch'][reference_index]}"
        )
    if not is_compacted:
        return (
            f"different batch: {_describe_batch(replica, index)} instead of "
            f"{_describe_batch(reference, reference_index)}"
        )
    records, reference_records = (
        _read_records(replica.read_batch(index)),
        _read_records(reference.read_batch(reference_index)),
    )
    for offset in sorted(records.keys() & reference_records.keys()):
        if records[offset] != reference_records[offset]:
            return f"the record at offset {offset} is different"
    return None


def _describe_batch(replica: _ReplicaBatches, index: int) -> str:
    last, size = replica.rows["last_offset"][index], replica.rows["size"][index]
    return f"{size} bytes up to offset {last}, checksum {replica.rows['checksum'][index]:08x}"


def _read_records(content: bytes) -> dict[int, Record]:
    try:
        return {record.offset: record for record in batch_at(content, 0)}
    except CorruptMessage:  # already a finding of the audit of its log
        return {}
