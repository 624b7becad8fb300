"""Decode a group of batches into Arrow record batches, with one row for each record.

Only what the columns need is read.  If the batch headers are enough, nothing is decompressed.  If
no column needs values, they are not parsed.  A batch that cannot be decoded although its checksum
is valid becomes a damaged range, and the others are decoded without it.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import HEADER_BYTES, LOG_APPEND_TIME_FLAG
from odradek.protocol.records.compression import Codec, codec_of, decompress
from odradek.spark_jobs.scan.batch_group import BatchGroup
from odradek.spark_jobs.scan.columns import COLUMN_DEPTHS, record_schema
from odradek.spark_jobs.scan.read_spec import ReadSpec
from odradek.spark_jobs.scan.record_boundaries import BatchPayloads, find_record_boundaries
from odradek.spark_jobs.scan.record_columns import build_batch_column, build_record_column
from odradek.spark_jobs.scan.record_fields import DecodeDepth, RecordFieldReader, RecordFields
from odradek.spark_jobs.scan.record_headers import read_record_headers
from odradek.spark_jobs.scan.segment_reader import GROUP_BYTES, DamagedRange, allocate_buffer
from odradek.spark_jobs.scan.varints import BoolArray, ByteArray, Int64Array, IntArray, VarintReader

_CODEC_MASK = 7
_RECORD_BYTES_MIN = 7
_SAFE_TIMESTAMP_MAX = 1 << 62

RECORDS_PER_SLICE = 32 * 1024

DecodedRows = Iterator[pa.RecordBatch | DamagedRange]


def decode_batches(group: BatchGroup, spec: ReadSpec) -> DecodedRows:
    """Decode the records of these batches whose offsets are in the range of ``spec``."""
    group, damaged_ranges = drop_unreadable(group)
    yield from damaged_ranges
    if not len(group):
        return
    depth = _required_depth(group, spec)
    if depth is None:
        arrays = [build_batch_column(name, group, spec) for name in spec.columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=record_schema(spec.columns))
        return
    for decompressed in _decompress(group):
        if isinstance(decompressed, DamagedRange):
            yield decompressed
        else:
            yield from _decode_records(decompressed, spec, depth)


def drop_unreadable(group: BatchGroup) -> tuple[BatchGroup, list[DamagedRange]]:
    """Drop the batches with valid checksums but invalid headers."""
    is_readable = (group.field("count") >= 0) & (
        group.headers["attributes"] & _CODEC_MASK <= max(Codec)
    )
    damaged_ranges = [
        damaged_batch(group, index, "unknown compression codec or negative record count")
        for index in _true_indexes(~is_readable)
    ]
    return (group.select(is_readable), damaged_ranges) if damaged_ranges else (group, [])


def _required_depth(group: BatchGroup, spec: ReadSpec) -> DecodeDepth | None:
    depths = [COLUMN_DEPTHS[name] for name in spec.columns if name in COLUMN_DEPTHS]
    if _is_partially_selected(group, spec):
        depths.append(DecodeDepth.OFFSET)
    return max(depths, default=None)


def _is_partially_selected(group: BatchGroup, spec: ReadSpec) -> bool:
    """Whether some records of these batches are outside the offset range."""
    begins_before = (group.field("base_offset") < spec.start_offset).any()
    return bool(begins_before or (group.last_offsets >= spec.end_offset).any())


@dataclass(frozen=True, slots=True)
class _DecompressedBatches:
    """Batches, and the positions of their records in a buffer."""

    group: BatchGroup
    buffer: ByteArray
    starts: Int64Array
    ends: Int64Array

    def select(self, selection: BoolArray | slice) -> _DecompressedBatches:
        return _DecompressedBatches(
            self.group.select(selection), self.buffer, self.starts[selection], self.ends[selection]
        )


def _decompress(group: BatchGroup) -> Iterator[_DecompressedBatches | DamagedRange]:
    """Yield the group as it is if uncompressed, else about 8 MB of decompressed batches a time."""
    starts, ends = group.starts + HEADER_BYTES, group.starts + group.sizes
    if not group.has_flag(_CODEC_MASK).any():
        yield _DecompressedBatches(group, group.buffer, starts, ends)
        return
    view = group.buffer.data
    attributes = group.headers["attributes"].tolist()
    payloads: list[bytes] = []
    batch_indexes: list[int] = []
    size_bytes = 0
    for index, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        try:
            payloads.append(decompress(codec_of(attributes[index]), view[start:end]))
        except CorruptMessage as error:
            yield damaged_batch(group, index, str(error))
            continue
        batch_indexes.append(index)
        size_bytes += len(payloads[-1])
        if size_bytes >= GROUP_BYTES:
            yield _concatenate(group, batch_indexes, payloads)
            payloads, batch_indexes, size_bytes = [], [], 0
    if payloads:
        yield _concatenate(group, batch_indexes, payloads)


def _concatenate(
    group: BatchGroup, batch_indexes: list[int], payloads: list[bytes]
) -> _DecompressedBatches:
    ends = np.cumsum([len(payload) for payload in payloads])
    buffer = allocate_buffer(int(ends[-1]))
    np.concatenate(
        [np.frombuffer(payload, dtype=np.uint8) for payload in payloads],
        out=buffer[: int(ends[-1])],
    )
    starts = np.concatenate(([0], ends[:-1]))
    return _DecompressedBatches(group.select(np.array(batch_indexes)), buffer, starts, ends)


def _decode_records(
    decompressed: _DecompressedBatches, spec: ReadSpec, depth: DecodeDepth
) -> DecodedRows:
    counts = decompressed.group.field("count")
    is_valid = counts * _RECORD_BYTES_MIN <= decompressed.ends - decompressed.starts
    varints = VarintReader(decompressed.buffer)
    boundaries = None
    if is_valid.all():
        boundaries = find_record_boundaries(
            varints, BatchPayloads(decompressed.starts, decompressed.ends, counts)
        )
        is_valid = boundaries.is_valid
    if boundaries is None or not is_valid.all():
        yield from _skip_invalid(decompressed, is_valid, spec, depth)
        return
    for batches in _slices_by_record_count(counts):
        part = decompressed.select(batches)
        reader = RecordFieldReader(
            varints, boundaries.for_batches(batches), part.group.field("last_offset_delta")
        )
        yield from _build_rows(part, reader, spec, depth)


def _skip_invalid(
    decompressed: _DecompressedBatches, is_valid: BoolArray, spec: ReadSpec, depth: DecodeDepth
) -> DecodedRows:
    for index in _true_indexes(~is_valid):
        yield damaged_batch(
            decompressed.group, index, "the records are inconsistent with each other or the header"
        )
    if is_valid.any():
        yield from _decode_records(decompressed.select(is_valid), spec, depth)


def _slices_by_record_count(counts: Int64Array) -> Iterator[slice]:
    """Slice the batches by record count, so that the arrays fit into the processor's cache."""
    ends = np.cumsum(counts)
    steps = np.arange(RECORDS_PER_SLICE, int(ends[-1]), RECORDS_PER_SLICE)
    bounds = sorted({0, len(counts), *np.searchsorted(ends, steps).tolist()})
    return (slice(first, last) for first, last in pairwise(bounds))


def _build_rows(
    decompressed: _DecompressedBatches,
    reader: RecordFieldReader,
    spec: ReadSpec,
    depth: DecodeDepth,
) -> DecodedRows:
    group = decompressed.group
    fields, headers = reader.read(depth), None
    is_valid = reader.is_valid & _timestamps_fit(group, fields)
    if is_valid.all() and "headers" in spec.columns:
        headers = read_record_headers(reader.varints, fields)
        is_valid[fields.batch_indexes[~headers.is_valid]] = False
    if not is_valid.all():
        yield from _skip_invalid(decompressed, is_valid, spec, depth)
        return
    arrays = [
        build_record_column(name, group, fields, decompressed.buffer, headers)
        if name in COLUMN_DEPTHS
        else build_batch_column(name, group, spec)
        for name in spec.columns
    ]
    rows = pa.RecordBatch.from_arrays(arrays, schema=record_schema(spec.columns))
    if fields.offset_deltas is not None and _is_partially_selected(group, spec):
        offsets = fields.repeat_per_record(group.field("base_offset")) + fields.offset_deltas
        is_in_range = (offsets >= spec.start_offset) & (offsets < spec.end_offset)
        rows = rows.filter(pa.array(is_in_range))
    yield rows


def _timestamps_fit(group: BatchGroup, fields: RecordFields) -> BoolArray:
    """For each batch, whether all record timestamps fit into an int64."""
    fits = np.ones(len(group), dtype=np.bool_)
    batch_bases, deltas = group.field("base_timestamp"), fields.timestamp_deltas
    if _may_overflow(batch_bases) or _may_overflow(deltas):
        bases = fields.repeat_per_record(batch_bases)
        total = bases + deltas
        overflows = ((bases ^ total) & (deltas ^ total)) < 0
        fits[fields.batch_indexes[overflows]] = False
    return fits | group.has_flag(LOG_APPEND_TIME_FLAG)


def _may_overflow(timestamps: IntArray) -> bool:
    """Whether adding one of these to another moderate timestamp might overflow an int64."""
    return (
        int(timestamps.max(initial=0)) >= _SAFE_TIMESTAMP_MAX
        or int(timestamps.min(initial=0)) < -_SAFE_TIMESTAMP_MAX
    )


def damaged_batch(group: BatchGroup, index: int, reason: str) -> DamagedRange:
    """Build the damaged range for a batch that cannot be decoded."""
    position = group.position + int(group.starts[index])
    end = position + int(group.sizes[index])
    return DamagedRange(position, end, int(group.headers["base_offset"][index]), reason)


def _true_indexes(flags: BoolArray) -> list[int]:
    indexes: list[int] = np.flatnonzero(flags).tolist()
    return indexes
