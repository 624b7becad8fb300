"""Reading files of which nothing is certain: without changing them, in pieces of a bounded size.

The modules of the storage engine open files to write to them, cut them and mend them.  A dump does
none of that, and so has its own way of reading the arrays that they map into memory.

A file in use may grow, shrink or vanish while it is read: what is missing then reads as its end.

Owner: whoever dumps.
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
from odradek.storage.paths import Content, FileName, Stage, file_named

PIECE_BYTES = 256 * 1024
#: Text files and snapshots are read whole; a snapshot of a million producers has 46 MB.
WHOLE_BYTES_MAX = 128 * 1024 * 1024


class Unreadable(Exception):
    """Something of which no bytes can sensibly be read; says why."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A file of a segment, or a snapshot, by its name and by those beside it."""

    path: Path
    content: Content
    stage: Stage
    base_offset: int | None  # None if the name does not tell
    next_base_offset: int | None = None  # of the next segment; None for the last one

    @property
    def is_sealed(self) -> bool:
        """Whether it is certain that nothing will be appended to this segment any more."""
        return self.next_base_offset is not None or self.stage is Stage.SWAP

    def beside(self, content: Content) -> Path:
        """Another file of the same segment."""
        name = self.path.name.removesuffix(self.stage.value).removesuffix(self.content.value)
        return self.path.with_name(f"{name}{content.value}{self.stage.value}")


def segment_files(directory: Path, names: Sequence[str]) -> list[SegmentFile]:
    """Those among ``names``, in the order of offsets; each segment's batches come first."""
    named = [(known, name) for name in names if (known := file_named(name)) is not None]
    bases = sorted(known.offset for known, _ in named if _is_in_use(known))
    return [
        SegmentFile(
            directory / name,
            known.content,
            known.stage,
            known.offset,
            _next_after(known, bases),
        )
        for known, name in sorted(named, key=_by_offset)
    ]


def segment_file(path: Path) -> SegmentFile | None:
    """None for a name that no file of a segment has; it need not begin with an offset."""
    known = file_named(path.name)
    if known is not None:
        found = segment_files(path.parent, os.listdir(path.parent))
        return next((file for file in found if file.path.name == path.name), None)
    for stage in reversed(Stage):
        if path.name.endswith(stage.value):
            ending = Path(path.name.removesuffix(stage.value)).suffix
            contents = [content for content in Content if content.value == ending]
            return SegmentFile(path, contents[0], stage, None) if contents else None
    return None


def _is_in_use(name: FileName) -> bool:
    return name.content is Content.BATCHES and name.stage is Stage.IN_USE


def _next_after(name: FileName, bases: list[int]) -> int | None:
    if name.stage is not Stage.IN_USE:
        return None
    at = bisect_right(bases, name.offset)
    return bases[at] if at < len(bases) else None


_CONTENT_ORDER = {content: at for at, content in enumerate(Content)}
_STAGE_ORDER = {stage: at for at, stage in enumerate(Stage)}


def _by_offset(named: tuple[FileName, str]) -> tuple[int, int, int]:
    known, _ = named
    return known.offset, _STAGE_ORDER[known.stage], _CONTENT_ORDER[known.content]


class Opened(NamedTuple):
    descriptor: int
    size_bytes: int


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """The file, to be read only, and its size at this moment."""
    if not S_ISREG(path.stat().st_mode):
        raise Unreadable("is no regular file")
    descriptor = files.open_for_reading(path)
    try:
        yield Opened(descriptor, os.fstat(descriptor).st_size)
    finally:
        files.system.close(descriptor)


def whole(path: Path) -> bytes:
    """The content of a file that is never large."""
    with opened(path) as (descriptor, size_bytes):
        if size_bytes > WHOLE_BYTES_MAX:
            raise Unreadable(f"{size_bytes} bytes are more than such a file can have")
        return files.read_at(descriptor, size_bytes, 0)


def pieces(descriptor: int, *, start: int, end: int) -> Iterator[bytes]:
    """What lies between two positions."""
    while start < end:
        piece = files.read_at(descriptor, min(PIECE_BYTES, end - start), start)
        if not piece:
            return
        yield piece
        start += len(piece)


def entries(descriptor: int, layout: Struct, *, end: int) -> Iterator[tuple[Any, ...]]:
    """The whole entries before ``end`` of a file that is an array of them."""
    # Pieces of whole entries only, so that none lies across two of them.
    step = PIECE_BYTES // layout.size * layout.size
    position = 0
    while position < end:
        piece = files.read_at(descriptor, min(step, end - position), position)
        yield from layout.iter_unpack(piece[: len(piece) // layout.size * layout.size])
        if len(piece) < layout.size:
            return
        position += len(piece)


def used_bytes(descriptor: int, *, size_bytes: int) -> int:
    """Where the zeros at the end of the file begin."""
    end = size_bytes
    while end > 0:
        start = max(0, end - PIECE_BYTES)
        piece = files.read_at(descriptor, end - start, start)
        used = len(piece.rstrip(b"\0"))
        if used:
            return start + used
        end = start
    return 0


def is_zero(descriptor: int, *, start: int, end: int) -> bool:
    return all(not piece.lstrip(b"\0") for piece in pieces(descriptor, start=start, end=end))
