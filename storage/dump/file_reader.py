"""Read-only access to files that may be damaged, in chunks of a bounded size.

The modules of the storage engine open files for writing, truncate and repair them.  A dump does
none of that, so it has its own reader for the index files, which they map into memory.

A file in use may grow, shrink or vanish while it is read: missing bytes read as the end of the
file.

Owner: the dump command.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from struct import Struct
from typing import Any, NamedTuple

from odradek.storage import files
from odradek.storage.paths import FileName, FileStage, LogFileType, parse_file_name

CHUNK_BYTES = 256 * 1024
#: Text files and snapshots are read whole; a snapshot of a million producers has 46 MB.
WHOLE_BYTES_MAX = 128 * 1024 * 1024


class UnreadableFile(Exception):
    """The file cannot be read sensibly; the message says why."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A file of a segment, or a snapshot, described by its name and its neighbours' names."""

    path: Path
    file_type: LogFileType
    stage: FileStage
    base_offset: int | None  # None if it is not in the name
    next_base_offset: int | None = None  # of the next segment; None for the last segment

    @property
    def is_sealed(self) -> bool:
        """Whether it is certain that nothing more will be appended to this segment."""
        return self.next_base_offset is not None or self.stage is FileStage.SWAP

    def sibling_path(self, file_type: LogFileType) -> Path:
        """Return the path of another file of the same segment."""
        name = self.path.name.removesuffix(self.stage.value).removesuffix(self.file_type.value)
        return self.path.with_name(f"{name}{file_type.value}{self.stage.value}")


def list_segment_files(directory: Path, names: Sequence[str]) -> list[SegmentFile]:
    """Return the segment files among ``names``, by offset; each segment's .log file comes first."""
    named = [(known, name) for name in names if (known := parse_file_name(name)) is not None]
    bases = sorted(known.offset for known, _ in named if _is_log_in_use(known))
    return [
        SegmentFile(
            directory / name,
            known.file_type,
            known.stage,
            known.offset,
            _next_base_offset(known, bases),
        )
        for known, name in sorted(named, key=_sort_key)
    ]


def find_segment_file(path: Path) -> SegmentFile | None:
    """Return None if no segment file has such a name; the name need not begin with an offset."""
    known = parse_file_name(path.name)
    if known is not None:
        siblings = list_segment_files(path.parent, os.listdir(path.parent))
        return next((file for file in siblings if file.path.name == path.name), None)
    for stage in reversed(FileStage):
        if path.name.endswith(stage.value):
            suffix = Path(path.name.removesuffix(stage.value)).suffix
            file_types = [file_type for file_type in LogFileType if file_type.value == suffix]
            return SegmentFile(path, file_types[0], stage, None) if file_types else None
    return None


def _is_log_in_use(name: FileName) -> bool:
    return name.file_type is LogFileType.LOG and name.stage is FileStage.IN_USE


def _next_base_offset(name: FileName, base_offsets: list[int]) -> int | None:
    if name.stage is not FileStage.IN_USE:
        return None
    index = bisect_right(base_offsets, name.offset)
    return base_offsets[index] if index < len(base_offsets) else None


_FILE_TYPE_ORDER = {file_type: index for index, file_type in enumerate(LogFileType)}
_STAGE_ORDER = {stage: index for index, stage in enumerate(FileStage)}


def _sort_key(named: tuple[FileName, str]) -> tuple[int, int, int]:
    known, _ = named
    return known.offset, _STAGE_ORDER[known.stage], _FILE_TYPE_ORDER[known.file_type]


class OpenedFile(NamedTuple):
    descriptor: int
    size_bytes: int


@contextmanager
def open_for_dump(path: Path) -> Iterator[OpenedFile]:
    """Open the file read-only and return its current size."""
    if not S_ISREG(path.stat().st_mode):
        raise UnreadableFile("not a regular file")
    descriptor = files.open_for_reading(path)
    try:
        yield OpenedFile(descriptor, os.fstat(descriptor).st_size)
    finally:
        files.system.close(descriptor)


def read_whole(path: Path) -> bytes:
    """Read a file that is never large."""
    with open_for_dump(path) as (descriptor, size_bytes):
        if size_bytes > WHOLE_BYTES_MAX:
            raise UnreadableFile(f"size {size_bytes} exceeds the limit for this type of file")
        return files.read_at(descriptor, size_bytes, 0)


def read_chunks(descriptor: int, *, start: int, end: int) -> Iterator[bytes]:
    """Read the bytes between two positions."""
    while start < end:
        chunk = files.read_at(descriptor, min(CHUNK_BYTES, end - start), start)
        if not chunk:
            return
        yield chunk
        start += len(chunk)


def read_entries(descriptor: int, layout: Struct, *, end: int) -> Iterator[tuple[Any, ...]]:
    """Read the complete entries before ``end`` of a file that is an array of entries."""
    # A chunk holds complete entries only, so no entry spans two chunks.
    step = CHUNK_BYTES // layout.size * layout.size
    position = 0
    while position < end:
        chunk = files.read_at(descriptor, min(step, end - position), position)
        yield from layout.iter_unpack(chunk[: len(chunk) // layout.size * layout.size])
        if len(chunk) < layout.size:
            return
        position += len(chunk)


def used_bytes(descriptor: int, *, size_bytes: int) -> int:
    """Return the position at which the trailing zeros of the file begin."""
    end = size_bytes
    while end > 0:
        start = max(0, end - CHUNK_BYTES)
        chunk = files.read_at(descriptor, end - start, start)
        used = len(chunk.rstrip(b"\0"))
        if used:
            return start + used
        end = start
    return 0


def is_zero(descriptor: int, *, start: int, end: int) -> bool:
    return all(not chunk.lstrip(b"\0") for chunk in read_chunks(descriptor, start=start, end=end))
