"""The indexes of a segment: their entries, and whether these can be true.

By itself an index must consist of whole entries in ascending order.  What it says about the .log
file beside it is checked by verify.py, when that is asked for.

Zeros at the end are room for entries that were never written: the index was not closed.  That is in
order as long as its segment is the last one.  (A lone entry of zeros is an entry: the first record
may be from 1970.)  A .txnindex file is never given room ahead.

Owner: whoever dumps.
"""

from __future__ import annotations

from collections.abc import Iterator

from odradek.storage.dump import reading, verify
from odradek.storage.dump.entries import FORMS, AnyEntry, Form
from odradek.storage.dump.facts import Fact, Facts, Wishes, damage, note
from odradek.storage.dump.reading import SegmentFile
from odradek.storage.paths import Content, Stage


def dump(file: SegmentFile, wishes: Wishes) -> Facts:
    form = FORMS[file.content]
    with reading.opened(file.path) as (descriptor, size_bytes):
        yield Fact(
            "file",
            {"content": form.content, "size_bytes": size_bytes, "base_offset": file.base_offset},
        )
        end = _end_of_entries(descriptor, form.layout.size, size_bytes)
        asked = end if wishes.bytes_max is None else min(end, wishes.bytes_max)
        yield from _entries(form, _read(form, descriptor, asked, file), wishes)
        if asked == end:
            yield from _tail(file, end, size_bytes, wishes)
        if wishes.verify and (reason := _why_not_to_verify(file, is_whole=asked == end)):
            yield note(f"not compared with its segment: {reason}")
        elif wishes.verify:
            yield from verify.verify(file, _read(form, descriptor, asked, file))


def _why_not_to_verify(file: SegmentFile, *, is_whole: bool) -> str:
    """Empty if there is no reason."""
    if file.stage is Stage.DELETED:
        # A segment that was compacted twice may have left one file the first time, another later.
        return "deleted files need not fit together"
    if file.base_offset is None:
        return "its name does not tell the base offset"
    return "" if is_whole else "it is not read to its end"


def _end_of_entries(descriptor: int, entry_bytes: int, size_bytes: int) -> int:
    """Where the last whole entry ends that is not all zeros."""
    whole_bytes = size_bytes - size_bytes % entry_bytes
    used = reading.used_bytes(descriptor, size_bytes=whole_bytes)
    if used == 0 and whole_bytes == entry_bytes:
        return entry_bytes
    return -(-used // entry_bytes) * entry_bytes


def _read(form: Form, descriptor: int, end: int, file: SegmentFile) -> Iterator[AnyEntry]:
    for stored in reading.entries(descriptor, form.layout, end=end):
        yield form.entry.read(stored, base_offset=file.base_offset or 0)


def _entries(form: Form, entries: Iterator[AnyEntry], wishes: Wishes) -> Facts:
    before: AnyEntry | None = None
    for slot, entry in enumerate(entries):
        first, last = entry.offsets
        if wishes.wants(first=first, last=last):
            yield Fact(form.kind, {"slot": slot, **entry._asdict()})
        why = entry.why_not_after(before)
        if why is not None:
            yield damage(f"entry {slot}: {why}", position=slot * form.layout.size)
        before = entry


def _tail(file: SegmentFile, end: int, size_bytes: int, wishes: Wishes) -> Facts:
    """What follows the last entry."""
    cut = size_bytes % FORMS[file.content].layout.size
    if end < size_bytes - cut:
        yield Fact("room", {"position": end, "size_bytes": size_bytes - cut - end})
        if file.content is Content.TRANSACTION_INDEX:
            yield damage("zeros at the end of an index that has no room ahead", position=end)
        elif wishes.verify and file.is_sealed:
            yield damage("the index of a sealed segment was not closed", position=end)
    if cut:
        # Room is for whole entries too.
        yield damage(f"an entry is cut short after {cut} bytes", position=size_bytes - cut)
