"""Do the indexes of a segment say the truth about its .log file?

    .index       an entry leads to the beginning of a batch, and its offset is in what begins there
                 and ends before the next entry
    .timeindex   an entry's timestamp is the largest of the batch that holds its offset, and none
                 before that batch is larger; the last entry of a sealed segment has the largest
    .txnindex    an entry's last offset is that of an abort marker of its producer

One walk over the headers of the batches serves all entries of an index, since both ascend.  Entries
out of order have been reported, and are passed over where they make no sense.

Kafka's own tool wants an entry's offset to be the last of its batch.  So a leader writes it; but a
follower that appends several batches at once notes the last offset of all of them in the .index,
old releases noted the first one, and some the record's own in the .timeindex.  All of these lead a
search right, and are in order here.

Owner: whoever dumps.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any, NamedTuple

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import CONTROL_FLAG, MAGIC, MAGIC_POSITION, NO_PRODUCER_ID
from odradek.protocol.records.control import marker_of
from odradek.protocol.records.record import NO_TIMESTAMP
from odradek.protocol.records.record_set import batch_at
from odradek.storage import batch_scan, files
from odradek.storage.dump import reading
from odradek.storage.dump.entries import (
    FORMS,
    Form,
    IndexEntry,
    TimeIndexEntry,
    TransactionIndexEntry,
)
from odradek.storage.dump.facts import Fact, Facts, damage
from odradek.storage.dump.reading import SegmentFile
from odradek.storage.paths import Content

_OFFSETS = FORMS[Content.OFFSET_INDEX]
_TIMES = FORMS[Content.TIME_INDEX]
_ABORTED = FORMS[Content.TRANSACTION_INDEX]

#: A header up to the producer's id, in which attributes and timestamps are.
_HEAD_BYTES = 51
_MAGIC_2 = Struct(">21xh12xqq")
_MAGIC_1 = Struct(">18xq")
#: Control batches hold one short record; what is larger is none.
CONTROL_BATCH_BYTES_MAX = 64 * 1024


class Head(NamedTuple):
    """What the header of a batch says."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    producer_id: int
    is_control: bool

    def holds(self, offset: int) -> bool:
        return self.base_offset <= offset <= self.last_offset


def verify(file: SegmentFile, entries: Iterable[Any]) -> Facts:
    """What is wrong with these entries of the index ``file``, given the batches beside it."""
    log = file.beside(Content.BATCHES)
    try:
        with reading.opened(log) as (descriptor, size_bytes):
            heads = _Heads(descriptor, size_bytes, file.base_offset)
            if file.content is Content.OFFSET_INDEX:
                yield from _verify_offsets(entries, heads)
            elif file.content is Content.TIME_INDEX:
                yield from _verify_times(entries, heads, is_sealed=file.is_sealed)
            else:
                yield from _verify_aborted(entries, heads)
    except FileNotFoundError:
        yield damage(f"there is no {log.name}")


class _Heads:
    """The batches of a .log file, passed one by one from its beginning on."""

    def __init__(self, descriptor: int, end: int, base_offset: int | None) -> None:
        self.descriptor = descriptor
        self.end = 0  # of the last batch seen
        # Of all batches passed:
        self.last_offset = -1 if base_offset is None else base_offset - 1
        self.largest_before = NO_TIMESTAMP
        self._places = batch_scan.headers(descriptor, start=0, end=end)
        self._current = self._next()

    def advance_to_offset(self, offset: int) -> Head | None:
        """To the batch that holds it or a later one."""
        while self._current is not None and self._current.last_offset < offset:
            self._pass(self._current)
        return self._current

    def advance_to_position(self, position: int) -> Head | None:
        """To the batch that begins there or later."""
        while self._current is not None and self._current.position < position:
            self._pass(self._current)
        return self._current

    def advance_to_end(self) -> None:
        while self._current is not None:
            self._pass(self._current)

    def _pass(self, head: Head) -> None:
        self.last_offset = head.last_offset
        self.largest_before = max(self.largest_before, head.max_timestamp)
        self._current = self._next()

    def _next(self) -> Head | None:
        place = next(self._places, None)
        if place is None:
            return None
        position, size_bytes, _, last_offset = place
        self.end = position + size_bytes
        head = files.read_at(self.descriptor, _HEAD_BYTES, position).ljust(_HEAD_BYTES, b"\0")
        if head[MAGIC_POSITION] == MAGIC:
            attributes, timestamp, producer_id = _MAGIC_2.unpack(head)
            is_control = attributes & CONTROL_FLAG != 0
            return Head(*place, timestamp, producer_id, is_control)
        # An old batch tells its last offset only; it begins where the one before has ended.
        timestamp = _MAGIC_1.unpack_from(head)[0] if head[MAGIC_POSITION] == 1 else NO_TIMESTAMP
        first = self.last_offset + 1
        return Head(position, size_bytes, first, last_offset, timestamp, NO_PRODUCER_ID, False)


def _verify_offsets(entries: Iterable[IndexEntry], heads: _Heads) -> Facts:
    walked = -1  # the position up to which the batches have been passed
    open_slot, open_entry = -1, None  # which reaches up to the next entry
    for slot, entry in enumerate(entries):
        if entry.log_position <= walked:
            continue
        walked = entry.log_position
        head = heads.advance_to_position(walked)
        if open_entry is not None and open_entry.offset > heads.last_offset:
            yield _ends_before(open_slot, open_entry, heads)
        open_entry = None
        if head is None:
            why = f"position {walked} lies beyond the batches, which end at {heads.end}"
            yield _wrong(slot, _OFFSETS, why)
            return
        if head.position != walked:
            yield _wrong(slot, _OFFSETS, f"no batch begins at position {walked}")
        elif entry.offset < head.base_offset:
            why = f"at position {walked} begins offset {head.base_offset}, after {entry.offset}"
            yield _wrong(slot, _OFFSETS, why)
        else:
            open_slot, open_entry = slot, entry
    heads.advance_to_end()
    if open_entry is not None and open_entry.offset > heads.last_offset:
        yield _ends_before(open_slot, open_entry, heads)


def _ends_before(slot: int, entry: IndexEntry, heads: _Heads) -> Fact:
    why = f"what begins at position {entry.log_position} ends with offset {heads.last_offset}"
    return _wrong(slot, _OFFSETS, f"{why}, before {entry.offset}")


def _verify_times(entries: Iterable[TimeIndexEntry], heads: _Heads, *, is_sealed: bool) -> Facts:
    largest = NO_TIMESTAMP
    for slot, entry in enumerate(entries):
        largest = entry.timestamp
        head = heads.advance_to_offset(entry.offset)
        if head is None:
            why = f"offset {entry.offset} lies beyond the last one, {heads.last_offset}"
            yield _wrong(slot, _TIMES, why)
            return
        if not head.holds(entry.offset):
            yield _wrong(slot, _TIMES, f"no batch holds offset {entry.offset}")
        elif head.max_timestamp != entry.timestamp:
            why = f"timestamp {entry.timestamp}, but the batch with offset {entry.offset} has "
            yield _wrong(slot, _TIMES, f"{why}{head.max_timestamp}")
        elif heads.largest_before > entry.timestamp:
            why = f"timestamp {entry.timestamp}, but a batch before offset {entry.offset} has "
            yield _wrong(slot, _TIMES, f"{why}{heads.largest_before}")
    heads.advance_to_end()
    if is_sealed and heads.largest_before != largest:
        why = f"the last entry has timestamp {largest}, but the largest of the sealed segment is "
        yield damage(f"{why}{heads.largest_before}")


def _verify_aborted(entries: Iterable[TransactionIndexEntry], heads: _Heads) -> Facts:
    for slot, entry in enumerate(entries):
        head = heads.advance_to_offset(entry.last_offset)
        if head is None:
            why = f"offset {entry.last_offset} lies beyond the last one, {heads.last_offset}"
            yield _wrong(slot, _ABORTED, why)
            return
        if head.producer_id != entry.producer_id or not _is_abort(head, heads.descriptor):
            why = f"at offset {entry.last_offset} is no abort marker of producer "
            yield _wrong(slot, _ABORTED, f"{why}{entry.producer_id}")


def _is_abort(head: Head, descriptor: int) -> bool:
    if not head.is_control or head.size_bytes > CONTROL_BATCH_BYTES_MAX:
        return False
    content = files.read_at(descriptor, head.size_bytes, head.position)
    try:
        markers = [marker_of(record) for record in batch_at(content, 0)]
    except CorruptMessage:
        return False
    return any(marker is not None and not marker.is_commit for marker in markers)


def _wrong(slot: int, form: Form, why: str) -> Fact:
    return damage(f"entry {slot}: {why}", position=slot * form.layout.size)
