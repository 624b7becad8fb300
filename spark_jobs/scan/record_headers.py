"""The headers of records, for all records of a group at once.

As with the records of batches (record_boundaries.py), one step reads the n-th header of every
record.  When only a few records have more headers, their headers are read one by one.

Owner: none; any thread.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odradek.protocol.errors import DecodeError
from odradek.protocol.varint import read_varint
from odradek.spark_jobs.scan.record_fields import ByteRanges, RecordFields
from odradek.spark_jobs.scan.varints import (
    PADDING_BYTES,
    BoolArray,
    Int64Array,
    IntArray,
    VarintReader,
)

LANES_MIN = 32


class RecordHeaders(NamedTuple):
    """The headers of all records, in order."""

    keys: ByteRanges
    values: ByteRanges
    is_valid: BoolArray  # for each record: its headers fill it


_HEADER_BYTES_MIN = 2  # the size of an empty header


def read_record_headers(varints: VarintReader, fields: RecordFields) -> RecordHeaders:
    assert fields.header_counts is not None
    assert fields.header_starts is not None
    # A larger count than fits into the record would allocate more memory than the file has bytes.
    counts_max = np.maximum(fields.ends - fields.header_starts, 0) // _HEADER_BYTES_MIN
    is_valid = (fields.header_counts >= 0) & (fields.header_counts <= counts_max)
    counts = np.where(is_valid, fields.header_counts, 0).astype(np.int64)
    columns = np.zeros((4, int(counts.sum())), dtype=np.int64)
    # Sorted by header count, descending, as in record_boundaries.py; records without headers are
    # left out.
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    descending_counts, first_slots = counts[order], (np.cumsum(counts) - counts)[order]
    positions, ends = fields.header_starts[order], fields.ends[order]
    is_lane_valid = is_valid[order]
    for step in range(int(descending_counts[0]) if len(descending_counts) else 0):
        width = int(np.searchsorted(-descending_counts, -step))
        if width < LANES_MIN:
            for lane in range(width):
                slot, end_slot = (
                    int(first_slots[lane]) + step,
                    int(first_slots[lane] + descending_counts[lane]),
                )
                positions[lane] = _read_headers_one_by_one(
                    varints, int(positions[lane]), int(ends[lane]), columns[:, slot:end_slot]
                )
            break
        slots = first_slots[:width] + step
        key_sizes, key_starts = varints.read(positions[:width])
        limit = ends[:width]
        value_at = _clip_ends(key_starts, key_sizes, limit)
        value_sizes, value_starts = varints.read(value_at)
        columns[:, slots] = key_sizes, key_starts, value_sizes, value_starts
        after = _clip_ends(value_starts, np.maximum(value_sizes, 0), limit)
        is_wrong = (key_sizes < 0) | (value_sizes < -1)
        is_wrong |= (value_at != key_starts + key_sizes) | (value_at >= limit)
        is_wrong |= after != value_starts + np.maximum(value_sizes, 0)
        is_lane_valid[:width] &= ~is_wrong
        positions[:width] = after
    is_valid[order] = is_lane_valid & (positions == ends)
    return RecordHeaders(_byte_ranges(*columns[:2]), _byte_ranges(*columns[2:]), is_valid)


def _byte_ranges(sizes: Int64Array, starts: Int64Array) -> ByteRanges:
    return ByteRanges(sizes, starts, starts + np.maximum(sizes, 0))


def _clip_ends(starts: Int64Array, sizes: IntArray, limits: Int64Array) -> Int64Array:
    """Return the ends, clipped to the record if a size is wrong."""
    ends: Int64Array = np.clip(starts + sizes, 0, limits)
    return ends


def _read_headers_one_by_one(
    varints: VarintReader, position: int, end: int, columns: Int64Array
) -> int:
    """Fill the columns with the headers from ``position`` on.  Return their end, or -1."""
    source = varints.buffer.data[: min(end, len(varints.buffer) - PADDING_BYTES)]
    headers = []
    try:
        for _ in range(columns.shape[1]):
            key_size, key_start = read_varint(source, position)
            value_size, value_start = read_varint(source, key_start + max(key_size, 0))
            position = value_start + max(value_size, 0)
            if key_size < 0 or value_size < -1 or position > end:
                return -1
            headers.append((key_size, key_start, value_size, value_start))
    except DecodeError:
        return -1
    columns[:] = np.array(headers, dtype=np.int64).T
    return position
