"""The batches and records of a .log file, as far as they can be told.

A batch whose checksum is wrong, whose offsets go back or whose records contradict its header is
damage, and the dump goes on after it.  Where no batch can be, there is nothing to go on by but the
index: if one of its entries leads to a later batch, the dump goes on there.

Zeros up to the end of the file are room that was allocated ahead, and damage only in a segment to
which nothing will be appended any more.

Memory: one batch at a time.  A large one is read whole only if its checksum, computed in pieces, is
right: a length that is damaged must not make a dump ask for gigabytes.

Owner: whoever dumps.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Any

from odradek.protocol.errors import CorruptMessage, DecodeError
from odradek.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    CHECKSUM_POSITION,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
    RecordBatch,
)
from odradek.protocol.records.compression import DECOMPRESSED_BYTES_MAX
from odradek.protocol.records.crc32c import crc32c
from odradek.protocol.records.legacy import CHECKED_FROM_POSITION
from odradek.protocol.records.legacy import CHECKSUM_POSITION as LEGACY_CHECKSUM_POSITION
from odradek.protocol.records.record import Record
from odradek.protocol.records.record_set import AnyBatch, batch_at, magic_of
from odradek.storage import batch_scan, files, offset_index
from odradek.storage.batch_scan import SMALLEST_BATCH_BYTES, BatchPlace
from odradek.storage.dump import internal, reading
from odradek.storage.dump.facts import Fact, Facts, Wishes, damage, note, shown
from odradek.storage.dump.reading import SegmentFile
from odradek.storage.paths import Content

#: Larger than what a broker accepts by default, and nothing to speak of in memory.
LARGE_BATCH_BYTES = 16 * 1024 * 1024
RELATIVE_OFFSET_MAX = offset_index.RELATIVE_OFFSET_MAX

_LENGTH_AND_MAGIC = Struct(">8xi4xb")
_CHECKSUM = Struct(">I")


def dump(file: SegmentFile, wishes: Wishes) -> Facts:
    with reading.opened(file.path) as (descriptor, size_bytes):
        yield Fact(
            "file",
            {
                "content": "batches",
                "size_bytes": size_bytes,
                "base_offset": file.base_offset,
            },
        )
        yield from _Walk(file, wishes, descriptor, size_bytes).facts()


class _Walk:
    """One pass over one file."""

    def __init__(self, file: SegmentFile, wishes: Wishes, descriptor: int, end: int) -> None:
        self._file = file
        self._wishes = wishes
        self._descriptor = descriptor
        self._end = end
        self._kinds = internal.kinds_for(file.path, wishes.decoding)
        self._position = 0
        self._last_offset = -1 if file.base_offset is None else file.base_offset - 1
        self._doubtful_position: int | None = None
        self._is_done = False

    def facts(self) -> Facts:
        while not self._is_done and self._position < self._end:
            for place in batch_scan.headers(self._descriptor, start=self._position, end=self._end):
                if self._is_beyond(place):
                    yield note("the rest was not asked for", position=place.position)
                    return
                yield from self._at(place)
                self._position = place.position + place.size_bytes
            if self._position < self._end:
                yield from self._where_no_batch_is()

    def _is_beyond(self, place: BatchPlace) -> bool:
        bytes_max, last_offset = self._wishes.bytes_max, self._last_offset
        if bytes_max is not None and place.position + place.size_bytes > bytes_max:
            return True
        # By the batch before, as an old one does not tell in its header where it begins.
        return last_offset >= self._wishes.last_offset and not self._wishes.verify

    def _at(self, place: BatchPlace) -> Facts:
        before, self._last_offset = self._last_offset, place.last_offset
        wishes = self._wishes
        last = max(place.base_offset, place.last_offset)  # the second may be damaged
        if not wishes.verify and not wishes.wants(first=before + 1, last=last):
            return
        try:
            batch = self._read(place)
        except CorruptMessage as broken:
            yield from self._distrust(broken, place, before)
            return
        first = place.base_offset if isinstance(batch, RecordBatch) else before + 1
        wrong_checksum = _wrong_checksum(batch)
        if wishes.wants(first=first, last=place.last_offset):
            is_valid = wrong_checksum is None
            yield Fact("batch", {"position": place.position, **_header(batch, is_valid=is_valid)})
        self._doubtful_position = None
        if wrong_checksum is not None:
            yield from self._distrust(wrong_checksum, place, before)
        yield from self._misplaced(place, before)
        # What a wrong checksum says is enough, unless the records themselves are asked for.
        if wishes.records or (wishes.verify and wrong_checksum is None):
            yield from self._records(batch, place.position)

    def _distrust(self, broken: CorruptMessage, place: BatchPlace, before: int) -> Facts:
        """The offsets and the length of a broken batch may be as wrong as the rest of it."""
        self._doubtful_position = place.position
        self._last_offset = before
        yield damage(str(broken), position=place.position)

    def _read(self, place: BatchPlace) -> AnyBatch:
        if place.size_bytes > LARGE_BATCH_BYTES:
            self._check_large(place)
        content = files.read_at(self._descriptor, place.size_bytes, place.position)
        return batch_at(content, 0)

    def _check_large(self, place: BatchPlace) -> None:
        head = files.read_at(self._descriptor, ATTRIBUTES_POSITION, place.position)
        if len(head) < ATTRIBUTES_POSITION:
            raise CorruptMessage("the file has become shorter")
        is_legacy = head[MAGIC_POSITION] < MAGIC
        at = LEGACY_CHECKSUM_POSITION if is_legacy else CHECKSUM_POSITION
        (checksum,) = _CHECKSUM.unpack_from(head, at)
        start = place.position + (CHECKED_FROM_POSITION if is_legacy else ATTRIBUTES_POSITION)
        computed = 0
        for piece in reading.pieces(
            self._descriptor, start=start, end=place.position + place.size_bytes
        ):
            computed = zlib.crc32(piece, computed) if is_legacy else crc32c(piece, computed)
        if checksum != computed:
            raise CorruptMessage(
                f"checksum {checksum:08x}, but the {place.size_bytes} bytes have {computed:08x}"
            )

    def _misplaced(self, place: BatchPlace, before: int) -> Facts:
        """What is wrong with the offsets of a batch, given those around it."""
        if place.base_offset <= before:
            yield damage(
                f"offsets from {place.base_offset} on, where {before + 1} is next",
                position=place.position,
            )
        base, following = self._file.base_offset, self._file.next_base_offset
        if base is not None and place.last_offset - base > RELATIVE_OFFSET_MAX:
            yield damage(
                f"offset {place.last_offset} is too far from the segment's base {base}",
                position=place.position,
            )
        if following is not None and place.last_offset >= following:
            yield damage(
                f"offset {place.last_offset} belongs to the next segment, from {following} on",
                position=place.position,
            )

    def _records(self, batch: AnyBatch, position: int) -> Facts:
        wishes = self._wishes
        max_bytes = max(DECOMPRESSED_BYTES_MAX, batch.size_bytes)
        try:
            for record in batch.records(max_bytes=max_bytes):
                why, meaning = self._meaning(record, is_control=batch.is_control)
                if wishes.records and wishes.wants(first=record.offset, last=record.offset):
                    yield Fact("record", {"position": position, **_content(record), **meaning})
                if why is not None:
                    yield damage(f"record {record.offset}: {why}", position=position)
        except CorruptMessage as broken:
            yield damage(f"the records: {broken}", position=position)

    def _meaning(
        self, record: Record, *, is_control: bool
    ) -> tuple[DecodeError | None, dict[str, Any]]:
        """What the broker wrote this record for, or why that cannot be told."""
        try:
            if is_control:
                return None, {"control": internal.control(record)}
            if self._kinds is not None:
                return None, {"decoded": internal.decoded(record, self._kinds)}
        except DecodeError as broken:
            return broken, {}
        return None, {}

    def _where_no_batch_is(self) -> Facts:
        position, end = self._position, self._end
        # A few zeros are more likely the beginning of an offset.
        is_room = end - position >= SMALLEST_BATCH_BYTES
        if is_room and reading.is_zero(self._descriptor, start=position, end=end):
            self._is_done = True
            yield Fact("room", {"position": position, "size_bytes": end - position})
            if self._wishes.verify and self._file.is_sealed:
                yield damage("zeros at the end of a sealed segment", position=position)
            return
        yield damage(self._why_no_batch(), position=position)
        doubtful = self._doubtful_position
        resumed = self._next_by_index(position if doubtful is None else doubtful)
        if resumed is None:
            self._is_done = True
            return
        yield note("the index leads to a batch here: going on", position=resumed)
        self._position = resumed

    def _why_no_batch(self) -> str:
        left = self._end - self._position
        head = files.read_at(self._descriptor, MAGIC_POSITION + 1, self._position)
        if left < SMALLEST_BATCH_BYTES or len(head) <= MAGIC_POSITION:
            return f"{left} bytes at the end, too few for a batch"
        length, magic = _LENGTH_AND_MAGIC.unpack(head)
        size_bytes = length + LOG_OVERHEAD_BYTES
        if not 0 <= magic <= MAGIC or size_bytes < SMALLEST_BATCH_BYTES:
            return f"no batch has magic {magic} and {size_bytes} bytes"
        return f"a batch of {size_bytes} bytes is cut short after {left}"

    def _next_by_index(self, position: int) -> int | None:
        """The first batch beyond ``position`` that an entry of the index leads to."""
        for _, candidate in self._index_entries():
            if position < candidate < self._end:
                places = batch_scan.headers(self._descriptor, start=candidate, end=self._end)
                if next(places, None) is not None:
                    return candidate
        return None

    def _index_entries(self) -> Iterator[tuple[int, int]]:
        try:
            with reading.opened(self._file.beside(Content.OFFSET_INDEX)) as (index, size_bytes):
                yield from reading.entries(index, offset_index.ENTRY, end=size_bytes)
        except FileNotFoundError:
            return


def _wrong_checksum(batch: AnyBatch) -> CorruptMessage | None:
    try:
        batch.check_crc()
    except CorruptMessage as wrong:
        return wrong
    return None


def _header(batch: AnyBatch, *, is_valid: bool) -> dict[str, Any]:
    magic = magic_of(batch)
    values: dict[str, Any] = {
        "size_bytes": batch.size_bytes,
        "magic": magic,
        "base_offset": None,
        "last_offset": batch.last_offset,
        "count": None,
        "codec": _codec_name(batch),
        "timestamp_type": batch.timestamp_type.name.lower() if magic else None,
        "base_timestamp": None,
        "max_timestamp": batch.max_timestamp if magic else None,
        "delete_horizon_ms": batch.delete_horizon_ms,
        "partition_leader_epoch": batch.partition_leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "checksum": batch.checksum,
        "is_valid": is_valid,
    }
    if isinstance(batch, RecordBatch):
        values["base_offset"] = batch.base_offset
        values["base_timestamp"] = batch.base_timestamp
        values["count"] = batch.count
    elif values["codec"] == "none":
        values["base_offset"] = batch.last_offset
        values["count"] = 1
    return values


def _codec_name(batch: AnyBatch) -> str | None:
    """None for a number that no codec has; reading the records says so."""
    try:
        return batch.codec.name.lower()
    except CorruptMessage:
        return None


def _content(record: Record) -> dict[str, Any]:
    headers = [
        {"key": shown(key.encode("utf-8", "surrogateescape")), "value": shown(value)}
        for key, value in record.headers
    ]
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": shown(record.key),
        "value": shown(record.value),
        "headers": headers,
    }
