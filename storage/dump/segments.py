"""Dumps the batches and records of a .log file, as far as they can be read.

A batch with a wrong checksum, with decreasing offsets, or with records that contradict its header
is damage; the dump continues after it.  Where no batch can begin, only the offset index helps: if
one of its entries points to a later batch, the dump continues there.

Zeros up to the end of the file are preallocated space.  They are damage only in a sealed segment,
to which nothing more will be appended.

Memory: one batch at a time.  A large batch is read into memory only if its checksum, computed in
chunks, is correct: a damaged length must not make the dump allocate gigabytes.

Owner: the dump command.
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
from odradek.protocol.records.legacy_batch import CHECKSUM_INPUT_POSITION
from odradek.protocol.records.legacy_batch import CHECKSUM_POSITION as LEGACY_CHECKSUM_POSITION
from odradek.protocol.records.record import Record
from odradek.protocol.records.record_set import AnyBatch, batch_at, magic_of
from odradek.storage import batch_scan, files, offset_index
from odradek.storage.batch_scan import SMALLEST_BATCH_BYTES, BatchLocation
from odradek.storage.dump import file_reader, internal_records
from odradek.storage.dump.file_reader import SegmentFile
from odradek.storage.dump.items import (
    DumpItem,
    DumpItems,
    DumpOptions,
    damage_item,
    note_item,
    printable,
)
from odradek.storage.paths import LogFileType

#: Larger than the batches that a broker accepts by default, and small in memory.
LARGE_BATCH_BYTES = 16 * 1024 * 1024
RELATIVE_OFFSET_MAX = offset_index.RELATIVE_OFFSET_MAX

_LENGTH_AND_MAGIC = Struct(">8xi4xb")
_CHECKSUM = Struct(">I")


def dump(file: SegmentFile, options: DumpOptions) -> DumpItems:
    with file_reader.open_for_dump(file.path) as (descriptor, size_bytes):
        yield DumpItem(
            "file",
            {
                "content": "batches",
                "size_bytes": size_bytes,
                "base_offset": file.base_offset,
            },
        )
        yield from _SegmentDumper(file, options, descriptor, size_bytes).items()


class _SegmentDumper:
    """One pass over one file.  Kafka: DumpLogSegments.dumpLog."""

    def __init__(self, file: SegmentFile, options: DumpOptions, descriptor: int, end: int) -> None:
        self._file = file
        self._options = options
        self._descriptor = descriptor
        self._end = end
        self._record_types = internal_records.record_types_for(file.path, options.decoding)
        self._position = 0
        self._last_offset = -1 if file.base_offset is None else file.base_offset - 1
        self._corrupt_position: int | None = None
        self._is_done = False

    def items(self) -> DumpItems:
        while not self._is_done and self._position < self._end:
            for location in batch_scan.scan_headers(
                self._descriptor, start=self._position, end=self._end
            ):
                if self._is_past_limits(location):
                    yield note_item("the rest is outside the limits", position=location.position)
                    return
                yield from self._dump_batch(location)
                self._position = location.position + location.size_bytes
            if self._position < self._end:
                yield from self._dump_invalid_region()

    def _is_past_limits(self, location: BatchLocation) -> bool:
        bytes_max, last_offset = self._options.bytes_max, self._last_offset
        if bytes_max is not None and location.position + location.size_bytes > bytes_max:
            return True
        # Use the previous batch: the header of an old batch does not contain its base offset.
        return last_offset >= self._options.last_offset and not self._options.verify

    def _dump_batch(self, location: BatchLocation) -> DumpItems:
        previous, self._last_offset = self._last_offset, location.last_offset
        options = self._options
        last = max(location.base_offset, location.last_offset)  # last_offset may be damaged
        if not options.verify and not options.includes(first=previous + 1, last=last):
            return
        try:
            batch = self._read_batch(location)
        except CorruptMessage as error:
            yield from self._report_corrupt_batch(error, location, previous)
            return
        first = location.base_offset if isinstance(batch, RecordBatch) else previous + 1
        wrong_checksum = _checksum_error(batch)
        if options.includes(first=first, last=location.last_offset):
            is_valid = wrong_checksum is None
            yield DumpItem(
                "batch", {"position": location.position, **_header_values(batch, is_valid=is_valid)}
            )
        self._corrupt_position = None
        if wrong_checksum is not None:
            yield from self._report_corrupt_batch(wrong_checksum, location, previous)
        yield from self._check_offsets(location, previous)
        # With a wrong checksum, verify no records; print them only on request.
        if options.records or (options.verify and wrong_checksum is None):
            yield from self._dump_records(batch, location.position)

    def _report_corrupt_batch(
        self, error: CorruptMessage, location: BatchLocation, previous_last_offset: int
    ) -> DumpItems:
        """Report a corrupt batch; its offsets and its length may be wrong too."""
        self._corrupt_position = location.position
        self._last_offset = previous_last_offset
        yield damage_item(str(error), position=location.position)

    def _read_batch(self, location: BatchLocation) -> AnyBatch:
        if location.size_bytes > LARGE_BATCH_BYTES:
            self._check_large_batch(location)
        content = files.read_at(self._descriptor, location.size_bytes, location.position)
        return batch_at(content, 0)

    def _check_large_batch(self, location: BatchLocation) -> None:
        head = files.read_at(self._descriptor, ATTRIBUTES_POSITION, location.position)
        if len(head) < ATTRIBUTES_POSITION:
            raise CorruptMessage("the file was truncated while it was read")
        is_legacy = head[MAGIC_POSITION] < MAGIC
        at = LEGACY_CHECKSUM_POSITION if is_legacy else CHECKSUM_POSITION
        (checksum,) = _CHECKSUM.unpack_from(head, at)
        start = location.position + (CHECKSUM_INPUT_POSITION if is_legacy else ATTRIBUTES_POSITION)
        computed = 0
        for chunk in file_reader.read_chunks(
            self._descriptor, start=start, end=location.position + location.size_bytes
        ):
            computed = zlib.crc32(chunk, computed) if is_legacy else crc32c(chunk, computed)
        if checksum != computed:
            raise CorruptMessage(
                f"checksum {checksum:08x}, but the {location.size_bytes} bytes have {computed:08x}"
            )

    def _check_offsets(self, location: BatchLocation, previous_last_offset: int) -> DumpItems:
        """Yield the errors of a batch's offsets, given the previous batch and the next segment."""
        if location.base_offset <= previous_last_offset:
            yield damage_item(
                f"base offset {location.base_offset} is below the next offset "
                f"{previous_last_offset + 1}",
                position=location.position,
            )
        base, next_base = self._file.base_offset, self._file.next_base_offset
        if base is not None and location.last_offset - base > RELATIVE_OFFSET_MAX:
            yield damage_item(
                f"offset {location.last_offset} is too far from the segment's base offset {base}",
                position=location.position,
            )
        if next_base is not None and location.last_offset >= next_base:
            yield damage_item(
                f"offset {location.last_offset} belongs to the next segment, "
                f"base offset {next_base}",
                position=location.position,
            )

    def _dump_records(self, batch: AnyBatch, position: int) -> DumpItems:
        options = self._options
        max_bytes = max(DECOMPRESSED_BYTES_MAX, batch.size_bytes)
        try:
            for record in batch.records(max_bytes=max_bytes):
                reason, decoded = self._decode_record(record, is_control=batch.is_control)
                if options.records and options.includes(first=record.offset, last=record.offset):
                    yield DumpItem(
                        "record", {"position": position, **_record_values(record), **decoded}
                    )
                if reason is not None:
                    yield damage_item(f"record {record.offset}: {reason}", position=position)
        except CorruptMessage as error:
            yield damage_item(f"invalid records: {error}", position=position)

    def _decode_record(
        self, record: Record, *, is_control: bool
    ) -> tuple[DecodeError | None, dict[str, Any]]:
        """Return the decoded content of an internal record, or the error of decoding it."""
        try:
            if is_control:
                return None, {"control": internal_records.decode_control_record(record)}
            if self._record_types is not None:
                return None, {
                    "decoded": internal_records.decode_internal_record(record, self._record_types)
                }
        except DecodeError as error:
            return error, {}
        return None, {}

    def _dump_invalid_region(self) -> DumpItems:
        position, end = self._position, self._end
        # A few zeros are more likely the beginning of a base offset.
        may_be_preallocated = end - position >= SMALLEST_BATCH_BYTES
        if may_be_preallocated and file_reader.is_zero(self._descriptor, start=position, end=end):
            self._is_done = True
            yield DumpItem("room", {"position": position, "size_bytes": end - position})
            if self._options.verify and self._file.is_sealed:
                yield damage_item("zeros at the end of a sealed segment", position=position)
            return
        yield damage_item(self._describe_invalid_region(), position=position)
        corrupt = self._corrupt_position
        resumed = self._find_next_by_index(position if corrupt is None else corrupt)
        if resumed is None:
            self._is_done = True
            return
        yield note_item("continuing at a batch found by the offset index", position=resumed)
        self._position = resumed

    def _describe_invalid_region(self) -> str:
        remaining = self._end - self._position
        head = files.read_at(self._descriptor, MAGIC_POSITION + 1, self._position)
        if remaining < SMALLEST_BATCH_BYTES or len(head) <= MAGIC_POSITION:
            return f"{remaining} bytes at the end, too few for a batch"
        length, magic = _LENGTH_AND_MAGIC.unpack(head)
        size_bytes = length + LOG_OVERHEAD_BYTES
        if not 0 <= magic <= MAGIC or size_bytes < SMALLEST_BATCH_BYTES:
            return f"invalid batch header: magic {magic}, {size_bytes} bytes"
        return f"a batch of {size_bytes} bytes is truncated after {remaining} bytes"

    def _find_next_by_index(self, position: int) -> int | None:
        """Return the first batch beyond ``position`` that an index entry points to."""
        for _, candidate in self._read_index_entries():
            if position < candidate < self._end:
                batches = batch_scan.scan_headers(self._descriptor, start=candidate, end=self._end)
                if next(batches, None) is not None:
                    return candidate
        return None

    def _read_index_entries(self) -> Iterator[tuple[int, int]]:
        try:
            with file_reader.open_for_dump(self._file.sibling_path(LogFileType.OFFSET_INDEX)) as (
                index,
                size_bytes,
            ):
                yield from file_reader.read_entries(index, offset_index.ENTRY, end=size_bytes)
        except FileNotFoundError:
            return


def _checksum_error(batch: AnyBatch) -> CorruptMessage | None:
    try:
        batch.check_crc()
    except CorruptMessage as wrong:
        return wrong
    return None


def _header_values(batch: AnyBatch, *, is_valid: bool) -> dict[str, Any]:
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
    """Return None for an unknown codec; reading the records reports it."""
    try:
        return batch.codec.name.lower()
    except CorruptMessage:
        return None


def _record_values(record: Record) -> dict[str, Any]:
    headers = [
        {"key": printable(key.encode("utf-8", "surrogateescape")), "value": printable(value)}
        for key, value in record.headers
    ]
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": printable(record.key),
        "value": printable(record.value),
        "headers": headers,
    }
