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
from odradek.protocol.records.control_records import parse_end_transaction_marker
from odradek.protocol.records.record import NO_TIMESTAMP
from odradek.protocol.records.record_set import batch_at
from odradek.storage import batch_scan, files
from odradek.storage.dump import file_reader
from odradek.storage.dump.file_reader import SegmentFile
from odradek.storage.dump.index_entries import (
    INDEX_FORMATS,
    IndexEntry,
    IndexFormat,
    TimeIndexEntry,
    TransactionIndexEntry,
)
from odradek.storage.dump.items import DumpItem, DumpItems, damage_item
from odradek.storage.paths import LogFileType

_OFFSET_INDEX = INDEX_FORMATS[LogFileType.OFFSET_INDEX]
_TIME_INDEX = INDEX_FORMATS[LogFileType.TIME_INDEX]
_TRANSACTION_INDEX = INDEX_FORMATS[LogFileType.TRANSACTION_INDEX]

#: A header up to the producer's id, in which attributes and timestamps are.
_HEADER_PREFIX_BYTES = 51
_MAGIC_2_HEADER = Struct(">21xh12xqq")
_MAGIC_1_HEADER = Struct(">18xq")
#: Control batches hold one short record; what is larger is none.
CONTROL_BATCH_BYTES_MAX = 64 * 1024


class BatchHeader(NamedTuple):
    """What the header of a batch says."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    producer_id: int
    is_control: bool

    def contains(self, offset: int) -> bool:
        return self.base_offset <= offset <= self.last_offset


def verify_index(file: SegmentFile, entries: Iterable[Any]) -> DumpItems:
    """What is wrong with these entries of the index ``file``, given the batches beside it."""
    log = file.sibling_path(LogFileType.LOG)
    try:
        with file_reader.open_for_dump(log) as (descriptor, size_bytes):
            headers = _BatchHeaders(descriptor, size_bytes, file.base_offset)
            if file.file_type is LogFileType.OFFSET_INDEX:
                yield from _verify_offset_index(entries, headers)
            elif file.file_type is LogFileType.TIME_INDEX:
                yield from _verify_time_index(entries, headers, is_sealed=file.is_sealed)
            else:
                yield from _verify_transaction_index(entries, headers)
    except FileNotFoundError:
        yield damage_item(f"{log.name} is missing")


class _BatchHeaders:
    """The batches of a .log file, passed one by one from its beginning on."""

    def __init__(self, descriptor: int, end: int, base_offset: int | None) -> None:
        self.descriptor = descriptor
        self.end_position = 0  # of the last batch seen
        # Of all batches passed:
        self.last_offset = -1 if base_offset is None else base_offset - 1
        self.max_timestamp_before = NO_TIMESTAMP
        self._locations = batch_scan.scan_headers(descriptor, start=0, end=end)
        self._current = self._read_next()

    def advance_to_offset(self, offset: int) -> BatchHeader | None:
        """To the batch that holds it or a later one."""
        while self._current is not None and self._current.last_offset < offset:
            self._skip(self._current)
        return self._current

    def advance_to_position(self, position: int) -> BatchHeader | None:
        """To the batch that begins there or later."""
        while self._current is not None and self._current.position < position:
            self._skip(self._current)
        return self._current

    def advance_to_end(self) -> None:
        while self._current is not None:
            self._skip(self._current)

    def _skip(self, header: BatchHeader) -> None:
        self.last_offset = header.last_offset
        self.max_timestamp_before = max(self.max_timestamp_before, header.max_timestamp)
        self._current = self._read_next()

    def _read_next(self) -> BatchHeader | None:
        location = next(self._locations, None)
        if location is None:
            return None
        position, size_bytes, _, last_offset = location
        self.end_position = position + size_bytes
        head = files.read_at(self.descriptor, _HEADER_PREFIX_BYTES, position).ljust(
            _HEADER_PREFIX_BYTES, b"\0"
        )
        if head[MAGIC_POSITION] == MAGIC:
            attributes, timestamp, producer_id = _MAGIC_2_HEADER.unpack(head)
            is_control = attributes & CONTROL_FLAG != 0
            return BatchHeader(*location, timestamp, producer_id, is_control)
        # An old batch tells its last offset only; it begins where the one before has ended.
        timestamp = (
            _MAGIC_1_HEADER.unpack_from(head)[0] if head[MAGIC_POSITION] == 1 else NO_TIMESTAMP
        )
        first = self.last_offset + 1
        return BatchHeader(
            position, size_bytes, first, last_offset, timestamp, NO_PRODUCER_ID, False
        )


def _verify_offset_index(entries: Iterable[IndexEntry], headers: _BatchHeaders) -> DumpItems:
    position = -1  # the position up to which the batches have been passed
    open_slot, open_entry = -1, None  # which reaches up to the next entry
    for slot, entry in enumerate(entries):
        if entry.log_position <= position:
            continue
        position = entry.log_position
        header = headers.advance_to_position(position)
        if open_entry is not None and open_entry.offset > headers.last_offset:
            yield _ends_before_entry(open_slot, open_entry, headers)
        open_entry = None
        if header is None:
            reason = f"position {position} is beyond the end of the batches, {headers.end_position}"
            yield _entry_damage(slot, _OFFSET_INDEX, reason)
            return
        if header.position != position:
            yield _entry_damage(slot, _OFFSET_INDEX, f"no batch begins at position {position}")
        elif entry.offset < header.base_offset:
            reason = (
                f"the batch at position {position} begins at offset {header.base_offset}, "
                f"after {entry.offset}"
            )
            yield _entry_damage(slot, _OFFSET_INDEX, reason)
        else:
            open_slot, open_entry = slot, entry
    headers.advance_to_end()
    if open_entry is not None and open_entry.offset > headers.last_offset:
        yield _ends_before_entry(open_slot, open_entry, headers)


def _ends_before_entry(slot: int, entry: IndexEntry, headers: _BatchHeaders) -> DumpItem:
    reason = f"the batches from position {entry.log_position} end at offset {headers.last_offset}"
    return _entry_damage(slot, _OFFSET_INDEX, f"{reason}, before {entry.offset}")


def _verify_time_index(
    entries: Iterable[TimeIndexEntry], headers: _BatchHeaders, *, is_sealed: bool
) -> DumpItems:
    largest = NO_TIMESTAMP
    for slot, entry in enumerate(entries):
        largest = entry.timestamp
        header = headers.advance_to_offset(entry.offset)
        if header is None:
            reason = f"offset {entry.offset} is beyond the last offset {headers.last_offset}"
            yield _entry_damage(slot, _TIME_INDEX, reason)
            return
        if not header.contains(entry.offset):
            yield _entry_damage(slot, _TIME_INDEX, f"no batch contains offset {entry.offset}")
        elif header.max_timestamp != entry.timestamp:
            reason = f"timestamp {entry.timestamp}, but the batch with offset {entry.offset} has "
            yield _entry_damage(slot, _TIME_INDEX, f"{reason}{header.max_timestamp}")
        elif headers.max_timestamp_before > entry.timestamp:
            reason = f"timestamp {entry.timestamp}, but a batch before offset {entry.offset} has "
            yield _entry_damage(slot, _TIME_INDEX, f"{reason}{headers.max_timestamp_before}")
    headers.advance_to_end()
    if is_sealed and headers.max_timestamp_before != largest:
        reason = (
            f"the last entry has timestamp {largest}, but the largest of the sealed segment is "
        )
        yield damage_item(f"{reason}{headers.max_timestamp_before}")


def _verify_transaction_index(
    entries: Iterable[TransactionIndexEntry], headers: _BatchHeaders
) -> DumpItems:
    for slot, entry in enumerate(entries):
        header = headers.advance_to_offset(entry.last_offset)
        if header is None:
            reason = f"offset {entry.last_offset} is beyond the last offset {headers.last_offset}"
            yield _entry_damage(slot, _TRANSACTION_INDEX, reason)
            return
        if header.producer_id != entry.producer_id or not _is_abort_marker(
            header, headers.descriptor
        ):
            reason = f"offset {entry.last_offset} is not an abort marker of producer "
            yield _entry_damage(slot, _TRANSACTION_INDEX, f"{reason}{entry.producer_id}")


def _is_abort_marker(header: BatchHeader, descriptor: int) -> bool:
    if not header.is_control or header.size_bytes > CONTROL_BATCH_BYTES_MAX:
        return False
    content = files.read_at(descriptor, header.size_bytes, header.position)
    try:
        markers = [parse_end_transaction_marker(record) for record in batch_at(content, 0)]
    except CorruptMessage:
        return False
    return any(marker is not None and not marker.is_commit for marker in markers)


def _entry_damage(slot: int, index_format: IndexFormat, reason: str) -> DumpItem:
    return damage_item(f"entry {slot}: {reason}", position=slot * index_format.layout.size)
