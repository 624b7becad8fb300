"""Checks the index entries of a segment against its .log file.

    .index       the position of an entry is the beginning of a batch, and its offset is in the
                 batches from there up to the next entry
    .timeindex   the timestamp of an entry is the max timestamp of the batch with its offset, and no
                 earlier batch has a larger one; the last entry of a sealed segment has the largest
    .txnindex    the last offset of an entry is that of an abort marker of its producer

One pass over the batch headers serves all entries of an index, since both ascend.  Entries out of
order have been reported already, and are skipped where they cannot be checked.

Kafka's DumpLogSegments requires the offset of an entry to be the last of its batch.  A leader
writes it so.  But a follower that appends several batches at once stores the last offset of all of
them in the .index; old releases stored the first offset, and some stored the offset of the record
in the .timeindex.  Lookups are correct with all of these, so they are valid here.

Owner: the dump command.
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

#: The prefix of a header up to the producer id; it contains attributes and timestamps.
_HEADER_PREFIX_BYTES = 51
_MAGIC_2_HEADER = Struct(">21xh12xqq")
_MAGIC_1_HEADER = Struct(">18xq")
#: A control batch holds one short record; a larger batch is not a control batch.
CONTROL_BATCH_BYTES_MAX = 64 * 1024


class BatchHeader(NamedTuple):
    """The values of a batch header that the checks need."""

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
    """Yield the errors of these entries of the index ``file``, given its .log file."""
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
    """A forward pass over the batches of a .log file."""

    def __init__(self, descriptor: int, end: int, base_offset: int | None) -> None:
        self.descriptor = descriptor
        self.end_position = 0  # the end of the last batch read
        # Of all batches skipped so far:
        self.last_offset = -1 if base_offset is None else base_offset - 1
        self.max_timestamp_before = NO_TIMESTAMP
        self._locations = batch_scan.scan_headers(descriptor, start=0, end=end)
        self._current = self._read_next()

    def advance_to_offset(self, offset: int) -> BatchHeader | None:
        """Advance to the batch that contains the offset, or to the next one."""
        while self._current is not None and self._current.last_offset < offset:
            self._skip(self._current)
        return self._current

    def advance_to_position(self, position: int) -> BatchHeader | None:
        """Advance to the batch that begins at the position, or to the next one."""
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
        # An old batch has only its last offset; it begins where the previous one ends.
        timestamp = (
            _MAGIC_1_HEADER.unpack_from(head)[0] if head[MAGIC_POSITION] == 1 else NO_TIMESTAMP
        )
        first = self.last_offset + 1
        return BatchHeader(
            position, size_bytes, first, last_offset, timestamp, NO_PRODUCER_ID, False
        )


def _verify_offset_index(entries: Iterable[IndexEntry], headers: _BatchHeaders) -> DumpItems:
    position = -1  # the position of the last entry checked
    open_slot, open_entry = -1, None  # covers the batches up to the next entry
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
