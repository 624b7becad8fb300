"""Do the replicas of a partition have the same batches?

A follower has its leader's batches byte by byte, so that each must have the same offsets, the same
checksum and the same leader epoch everywhere, up to the lowest high watermark: what lies beyond it
may yet be cut off.  Where they do not, the replicas vote, and the one that is furthest has the
casting vote.

Compaction runs by itself on each broker, and leaves fewer records in a batch, or none.  Where it
has been at work, batches of one offset may differ, and it is their records that are compared, those
that both still have; a batch that one of them lacks says nothing.

Owner: whoever audits.
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
from odradek.spark_jobs.audit.batch_rows import ROW, Lost, Rows
from odradek.spark_jobs.audit.findings import PROBLEMS_MAX, Finding, Severity
from odradek.spark_jobs.audit.log_audit import AuditedLog
from odradek.spark_jobs.scan.file_access import file_system_of
from odradek.spark_jobs.scan.varints import Integers

#: What makes two batches the same.  The checksum covers all but offset, length and leader epoch.
_IDENTITY = ("base_offset", "last_offset", "size", "checksum", "leader_epoch", "magic")

Identity = tuple[int, ...]


class _Copy(NamedTuple):
    """The batches of one replica that the others should have."""

    audited: AuditedLog
    paths: list[str]
    segments: Integers  # the number of the path of each
    rows: Rows

    def identity(self, at: int) -> Identity:
        return tuple(int(self.rows[name][at]) for name in _IDENTITY)

    def content(self, at: int) -> bytes:
        path = self.paths[int(self.segments[at])]
        content = bytearray(int(self.rows["size"][at]))
        with file_system_of(path).open(path) as file:
            file.read_into(memoryview(content), int(self.rows["position"][at]))
        return bytes(content)

    def finding(self, at: int, what: str) -> Finding:
        log = self.audited.log
        return Finding(
            Severity.ERROR,
            log.topic,
            log.partition,
            self.paths[int(self.segments[at])],
            int(self.rows["position"][at]),
            int(self.rows["base_offset"][at]),
            what,
        )


def replica_findings(audited: Sequence[AuditedLog]) -> Iterator[Finding]:
    """``audited`` are of the same partition, the one that is furthest first."""
    if len(audited) < 2:
        return
    start = max(each.log.log_start_offset for each in audited)
    end = min(_bound(each) for each in audited)
    copies = [_copy(each, start, end) for each in audited]
    lost = Lost(span for each in audited for span in each.lost.ranges)
    is_compacted = any(each.is_compacted for each in audited)
    found = (
        finding
        for offset in _differing(copies, lost)
        for finding in _compared(offset, copies, is_compacted=is_compacted)
    )
    yield from islice(found, PROBLEMS_MAX)
    last = next(found, None)
    if last is not None:
        yield replace(last, what=f"{last.what}; no more of the replicas is compared")


def _bound(audited: AuditedLog) -> int:
    watermark = audited.log.high_watermark
    return audited.next_offset if watermark is None else watermark


def _copy(audited: AuditedLog, start: int, end: int) -> _Copy:
    numbers, tables = [], []
    for number, segment in enumerate(audited.segments):
        rows = segment.rows
        rows = rows[(rows["base_offset"] >= start) & (rows["last_offset"] < end)]
        tables.append(rows)
        numbers.append(np.full(len(rows), number))
    paths = [segment.segment.path for segment in audited.segments]
    return _Copy(
        audited,
        paths,
        np.concatenate([np.empty(0, dtype=np.int64), *numbers]),
        np.concatenate([np.empty(0, dtype=ROW), *tables]),
    )


def _differing(copies: Sequence[_Copy], lost: Lost) -> list[int]:
    """The offsets of batches that are not the same in all of them."""
    first = copies[0].rows
    found: set[int] = set()
    for copy in copies[1:]:
        rows = copy.rows
        # Most are the same in all: those go at once, without an object for each.
        both, mine, other = np.intersect1d(
            first["base_offset"], rows["base_offset"], assume_unique=True, return_indices=True
        )
        is_same = np.ones(len(both), dtype=np.bool_)
        for name in _IDENTITY:
            is_same &= first[name][mine] == rows[name][other]
        found.update(both[~is_same].tolist())
        found.update(np.setxor1d(first["base_offset"], rows["base_offset"], True).tolist())
    offsets = np.array(sorted(found), dtype=np.int64)
    remaining: list[int] = offsets[~lost.have(offsets)].tolist()
    return remaining


def _compared(offset: int, copies: Sequence[_Copy], *, is_compacted: bool) -> Iterator[Finding]:
    places = {number: at for number, copy in enumerate(copies) if (at := _place(copy, offset)) >= 0}
    votes = Counter({number: copies[number].identity(at) for number, at in places.items()}.values())
    chosen = max(votes.values())
    model = next(n for n, at in places.items() if votes[copies[n].identity(at)] == chosen)
    right = copies[model]
    for number, copy in enumerate(copies):
        if number not in places:
            if not is_compacted:
                yield _lacking(copy, right, places[model])
            continue
        at = places[number]
        if copy.identity(at) != right.identity(places[model]):
            what = _difference(right, places[model], copy, at, is_compacted=is_compacted)
            if what is not None:
                other = right.finding(places[model], "")
                what = f"{what}, unlike {other.file} at byte {other.position}"
                yield copy.finding(at, what)


def _place(copy: _Copy, offset: int) -> int:
    """-1 if it has no batch that begins there."""
    offsets = copy.rows["base_offset"]
    at = int(np.searchsorted(offsets, offset))
    return at if at < len(offsets) and offsets[at] == offset else -1


def _lacking(copy: _Copy, right: _Copy, at: int) -> Finding:
    """What is not there has no position: the file is the one where it should be."""
    other = right.finding(at, "")
    bases = [segment.segment.base_offset for segment in copy.audited.segments]
    below = [number for number, base in enumerate(bases) if base <= (other.offset or 0)]
    file = copy.paths[below[-1]] if below else copy.audited.log.directory
    what = f"no batch begins with offset {other.offset}, unlike {other.file} at byte "
    return Finding(
        Severity.ERROR,
        other.topic,
        other.partition,
        file,
        None,
        other.offset,
        f"{what}{other.position}",
    )


def _difference(
    right: _Copy, right_at: int, copy: _Copy, at: int, *, is_compacted: bool
) -> str | None:
    """None if it is only that compaction has removed records."""
    if right.rows["leader_epoch"][right_at] != copy.rows["leader_epoch"][at]:
        return (
            f"leader epoch {copy.rows['leader_epoch'][at]} instead of "
            f"{right.rows['leader_epoch'][right_at]}"
        )
    if not is_compacted:
        return f"another batch: {_described(copy, at)} instead of {_described(right, right_at)}"
    mine, others = _records(copy.content(at)), _records(right.content(right_at))
    for offset in sorted(mine.keys() & others.keys()):
        if mine[offset] != others[offset]:
            return f"the record at offset {offset} is another"
    return None


def _described(copy: _Copy, at: int) -> str:
    last, size = copy.rows["last_offset"][at], copy.rows["size"][at]
    return f"{size} bytes up to offset {last}, checksum {copy.rows['checksum'][at]:08x}"


def _records(content: bytes) -> dict[int, Record]:
    try:
        return {record.offset: record for record in batch_at(content, 0)}
    except CorruptMessage:  # the audit of its log has told
        return {}
