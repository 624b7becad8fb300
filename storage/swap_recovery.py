"""Finishes or undoes a compaction that a crash interrupted.

The files that each step of ``cleaner/segment_swap.py`` leaves behind decide:

    .cleaned                  writing, or the first renames, were not finished.  First every
                              ``.swap`` file from the same base offset on is removed, because it is
                              part of the same segment, then the ``.cleaned`` file
    .log.swap                 the new segment is complete.  The old segments that it replaces are
                              removed, if they still exist, and it takes their place
    .index.swap and others,   the .log file is in place: the indexes follow.  Indexes without a .log
    but no .log.swap          file are removed

An old segment is replaced if its base offset is that of the new one or lies within its offsets.  An
old segment beyond that was replaced by nothing: none of its records is needed, and it may stay.
Each step is fsynced before the next, so a second crash is handled in the same way.  Kafka uses the
same names with the same meaning, so this also handles what Kafka leaves behind.

Owner: the thread that opens the log; no other thread has it open.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from odradek.storage import batch_scan, files
from odradek.storage.open_file import OpenFile
from odradek.storage.paths import (
    SEGMENT_FILE_TYPES,
    FileName,
    FileStage,
    LogFileType,
    file_path,
    parse_file_name,
)


def complete_swap_operations(directory: Path) -> list[str]:
    """Remove all ``.cleaned`` and ``.swap`` files; return their names."""
    names = [
        name for name in map(parse_file_name, files.system.listdir(directory)) if name is not None
    ]
    cleaned = [name for name in names if name.stage is FileStage.CLEANED]
    swapped = [name for name in names if name.stage is FileStage.SWAP]
    if not cleaned and not swapped:
        return []
    first_cleaned = min((name.offset for name in cleaned), default=None)
    complete = [name for name in swapped if first_cleaned is None or name.offset < first_cleaned]
    _remove(directory, [name for name in swapped if name not in complete])
    _remove(directory, cleaned)
    _put_batches_in_place(
        directory, [name for name in complete if name.file_type is LogFileType.LOG]
    )
    _put_indexes_in_place(
        directory, [name for name in complete if name.file_type in _INDEX_FILE_TYPES]
    )
    _remove(directory, [name for name in complete if name.file_type not in SEGMENT_FILE_TYPES])
    return sorted(map(str, [*cleaned, *swapped]))


_INDEX_FILE_TYPES = [each for each in SEGMENT_FILE_TYPES if each is not LogFileType.LOG]


def _put_batches_in_place(directory: Path, batches: Iterable[FileName]) -> None:
    for name in batches:
        end_offset = _end_offset(directory / str(name), name.offset)
        _remove(directory, _files_in_use(directory, start=name.offset, end=end_offset))
        _put_in_place(directory, [name])


def _put_indexes_in_place(directory: Path, indexes: list[FileName]) -> None:
    has_batches = [
        name for name in indexes if file_path(directory, name.offset, LogFileType.LOG).exists()
    ]
    _remove(directory, [name for name in indexes if name not in has_batches])
    _put_in_place(directory, has_batches)


def _end_offset(path: Path, base_offset: int) -> int:
    """Return the offset after the last; even an empty segment covers its base offset."""
    file = OpenFile(path, writable=False)
    end = base_offset + 1
    for location in batch_scan.scan_headers(file.descriptor, start=0, end=path.stat().st_size):
        end = location.last_offset + 1
    return end


def _files_in_use(directory: Path, *, start: int, end: int) -> list[FileName]:
    """Return the files of the segments with base offsets from ``start`` to before ``end``."""
    names = [
        name for name in map(parse_file_name, files.system.listdir(directory)) if name is not None
    ]
    return [
        name
        for name in names
        if name.stage is FileStage.IN_USE
        and name.file_type in SEGMENT_FILE_TYPES
        and start <= name.offset < end
    ]


def _remove(directory: Path, names: list[FileName]) -> None:
    for name in names:
        files.remove(directory / str(name))
    if names:
        files.sync_directory(directory)


def _put_in_place(directory: Path, names: list[FileName]) -> None:
    for name in names:
        files.rename(directory / str(name), file_path(directory, name.offset, name.file_type))
    if names:
        files.sync_directory(directory)
