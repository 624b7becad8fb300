"""A segment whose offsets are too far apart for its indexes, made into several.

Index entries have 32 bits for the distance from a segment's base offset.  Kafka before 0.11 did not
mind that when it compacted several segments into one (KAFKA-5413, KAFKA-6264).  Nothing is wrong
with the batches of such a segment, but the far ones could not be found by their offsets, and
recovery would take them for damaged.

The batches stay as they are, byte for byte, in segments that begin where the distance would become
too large.  The first keeps the name of the old one, even if nothing is left for it, so that it
takes its place.  Indexes are left to the loader, which misses them.

    .cleaned   written and synced; a crash leaves the old segment
    .swap      the first part last, and for good only when all others are: with it, all are whole,
               and swap_recovery.py finishes, now or at the next start.  Without it, all are removed

Only a sealed segment can have come about so; that it has, the next one tells, which begins far off.
In the active one, an offset so far away is damage.  Kafka splits in the same way, by these names.

Owner: whoever opens the log; nobody else has it open.
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
    """A segment to be: its base offset, and where in the old .log file its batches are."""

    base_offset: int
    start: int
    end: int


def split_overflowed_segments(directory: Path, base_offsets: Iterable[int]) -> list[Path]:
    """Split what has to be, of all segments of a log; the files that were."""
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
    """As few as possible; one if the segment is in order, or too damaged to tell."""
    size_bytes = path.stat().st_size
    starts = [(base_offset, 0)]
    next_offset = base_offset
    file = OpenFile(path, writable=False)
    for location in batch_scan.scan_headers(file.descriptor, start=0, end=size_bytes):
        last_offset = location.last_offset
        if not next_offset <= last_offset < end_offset:
            return [SegmentPart(base_offset, 0, size_bytes)]
        if last_offset - starts[-1][0] > RELATIVE_OFFSET_MAX:
            # An old wrapper tells only its last offset; its first is no further away than this.
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
