"""Dumps the index files of a segment, and checks them by themselves.

An index must consist of complete entries in ascending order.  With ``--verify``, index_verifier.py
also checks the entries against the .log file.

Zeros at the end are preallocated space for entries: the index was not closed.  That is valid as
long as its segment is the last one.  (A single entry of zeros is an entry: the first record may be
from 1970.)  A .txnindex file is never preallocated.

Owner: the dump command.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.storage.dump import file_reader, index_verifier
from odradek.storage.dump.file_reader import SegmentFile
from odradek.storage.dump.index_entries import INDEX_FORMATS, AnyEntry, IndexFormat
from odradek.storage.dump.items import DumpItem, DumpItems, DumpOptions, damage_item, note_item
from odradek.storage.paths import FileStage, LogFileType


def dump(file: SegmentFile, options: DumpOptions) -> DumpItems:
    index_format = INDEX_FORMATS[file.file_type]
    with file_reader.open_for_dump(file.path) as (descriptor, size_bytes):
        yield DumpItem(
            "file",
            {
                "content": index_format.description,
                "size_bytes": size_bytes,
                "base_offset": file.base_offset,
            },
        )
        end = _end_of_entries(descriptor, index_format.layout.size, size_bytes)
        limit = end if options.bytes_max is None else min(end, options.bytes_max)
        yield from _dump_entries(
            index_format, _read_entries(index_format, descriptor, limit, file), options
        )
        if limit == end:
            yield from _dump_tail(file, end, size_bytes, options)
        if options.verify and (reason := _skip_verify_reason(file, is_whole=limit == end)):
            yield note_item(f"not checked against its segment: {reason}")
        elif options.verify:
            yield from index_verifier.verify_index(
                file, _read_entries(index_format, descriptor, limit, file)
            )


def _skip_verify_reason(file: SegmentFile, *, is_whole: bool) -> str:
    """Return an empty string if the index can be verified."""
    if file.stage is FileStage.DELETED:
        # Two compactions of a segment may leave deleted files of different generations.
        return "deleted files need not match each other"
    if file.base_offset is None:
        return "its name does not contain the base offset"
    return "" if is_whole else "it is not read to its end"


def _end_of_entries(descriptor: int, entry_bytes: int, size_bytes: int) -> int:
    """Return the end of the last complete entry that is not all zeros."""
    whole_bytes = size_bytes - size_bytes % entry_bytes
    used = file_reader.used_bytes(descriptor, size_bytes=whole_bytes)
    if used == 0 and whole_bytes == entry_bytes:
        return entry_bytes
    return -(-used // entry_bytes) * entry_bytes


def _read_entries(
    index_format: IndexFormat, descriptor: int, end: int, file: SegmentFile
) -> Iterator[AnyEntry]:
    for stored in file_reader.read_entries(descriptor, index_format.layout, end=end):
        yield index_format.entry_type.from_stored(stored, base_offset=file.base_offset or 0)


def _dump_entries(
    index_format: IndexFormat, entries: Iterator[AnyEntry], options: DumpOptions
) -> DumpItems:
    previous: AnyEntry | None = None
    for slot, entry in enumerate(entries):
        first, last = entry.offsets
        if options.includes(first=first, last=last):
            yield DumpItem(index_format.item_kind, {"slot": slot, **entry._asdict()})
        reason = entry.order_error(previous)
        if reason is not None:
            yield damage_item(f"entry {slot}: {reason}", position=slot * index_format.layout.size)
        previous = entry


def _dump_tail(file: SegmentFile, end: int, size_bytes: int, options: DumpOptions) -> DumpItems:
    """Dump the bytes after the last entry."""
    partial = size_bytes % INDEX_FORMATS[file.file_type].layout.size
    if end < size_bytes - partial:
        yield DumpItem("room", {"position": end, "size_bytes": size_bytes - partial - end})
        if file.file_type is LogFileType.TRANSACTION_INDEX:
            yield damage_item("zeros at the end of an index without preallocation", position=end)
        elif options.verify and file.is_sealed:
            yield damage_item("the index of a sealed segment was not closed", position=end)
    if partial:
        # Preallocated space holds complete entries too.
        yield damage_item(
            f"an entry is truncated after {partial} bytes", position=size_bytes - partial
        )
