"""Splits a segment whose offsets overflow its indexes.  Kafka: UnifiedLog.splitOverflowedSegment.

Index entries have 32 bits for the distance from a segment's base offset.  Kafka before 0.11 ignored
this limit when it compacted several segments into one (KAFKA-5413, KAFKA-6264).  The batches of
such a segment are valid, but a lookup by offset cannot find those that are too far from the base
offset, and recovery would treat them as corrupt.

The batches are copied byte for byte into segments that begin where the distance would become too
large.  The first one keeps the name of the old segment and replaces it, even if it has no batches.
The indexes are missing at first; the loader rebuilds them.

    .cleaned   written and flushed; a crash leaves the old segment
    .swap      the first part is renamed last, after the other names are durable.  If it exists, all
               parts are complete, and swap_recovery.py finishes, now or at the next start.  If it
               does not exist, all parts are removed

Only a sealed segment can overflow.  The next segment shows it, because its base offset is too far
away.  In the active segment an offset that is too far away is damage.  Kafka splits in the same way
and uses the same names.

Owner: the thread that opens the log; no other thread has it open.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from odradek.storage import batch_scan, files
from odradek.storage.offset_index import RELATIVE_OFFSET_MAX
from odradek.storage.open_file import OpenFile
from odradek.storage.paths import FileStage, LogFileType, file_path
from odradek.storage.swap_recovery import complete_swap_operations

COPY_BYTES = 1024 * 1024


class SegmentPart(NamedTuple):
    """A new segment: its base offset, and the positions of its batches in the old .log file."""

    base_offset: int
    start: int
    end: int


def split_overflowed_segments(directory: Path, base_offsets: Iterable[int]) -> list[Path]:
    """Split every overflowed segment of a log; return the paths of the split .log files."""
    split = []
    for base_offset, following in pairwise(sorted(base_offsets)):
        if following - 1 - base_offset <= RELATIVE_OFFSET_MAX:
            continue
        path = file_path(directory, base_offset, LogFileType.LOG)
        parts = _plan_parts(path, base_offset, end_offset=following)
        if len(parts) > 1:
            _split(path, parts)
            split.append(path)
    return split


def _plan_parts(path: Path, base_offset: int, *, end_offset: int) -> list[SegmentPart]:
    """Return as few parts as possible; one if no split is needed or the segment is corrupt."""
    size_bytes = path.stat().st_size
    starts = [(base_offset, 0)]
    next_offset = base_offset
    file = OpenFile(path, writable=False)
    for location in batch_scan.scan_headers(file.descriptor, start=0, end=size_bytes):
        last_offset = location.last_offset
        if not next_offset <= last_offset < end_offset:
            return [SegmentPart(base_offset, 0, size_bytes)]
        if last_offset - starts[-1][0] > RELATIVE_OFFSET_MAX:
            # An old wrapper has only its last offset; its first offset is at most this far away.
            starts.append((max(next_offset, last_offset - RELATIVE_OFFSET_MAX), location.position))
        next_offset = last_offset + 1
    ends = [position for _, position in starts[1:]] + [size_bytes]
    return [SegmentPart(base, start, end) for (base, start), end in zip(starts, ends, strict=True)]


def _split(path: Path, parts: list[SegmentPart]) -> None:
    modified_ns = path.stat().st_mtime_ns
    source = OpenFile(path, writable=False)
    for part in parts:
        cleaned = file_path(path.parent, part.base_offset, LogFileType.LOG, FileStage.CLEANED)
        _copy(source, part, cleaned)
        files.set_modified_ns(cleaned, modified_ns)
    for part in reversed(parts):
        files.sync_directory(path.parent)
        cleaned = file_path(path.parent, part.base_offset, LogFileType.LOG, FileStage.CLEANED)
        files.rename(cleaned, cleaned.with_suffix(FileStage.SWAP.value))
    files.sync_directory(path.parent)
    complete_swap_operations(path.parent)


def _copy(source: OpenFile, part: SegmentPart, path: Path) -> None:
    target = OpenFile(path, writable=True)
    for position in range(part.start, part.end, COPY_BYTES):
        chunk = files.read_at(source.descriptor, min(COPY_BYTES, part.end - position), position)
        files.write_at(target.descriptor, [chunk], position - part.start)
    files.sync(target.descriptor)
