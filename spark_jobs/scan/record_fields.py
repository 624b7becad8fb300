"""The fields of records of magic 2, for all records of several batches at once.

Each field follows the previous one and determines where the next begins.  They are read in order,
up to the last one that a column needs:

    timestamp delta, offset delta, key length, key, value length, value, number of headers, headers

The fields that are read are checked.  The last of them must end within the record; then all
earlier ones do too, because no field has a negative size.  Offsets must ascend within the batch.
If all fields are read, they must fill the record.  Fields that no column needs are not checked.

Owner: none; any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from odradek.spark_jobs.scan.record_boundaries import RecordBoundaries
from odradek.spark_jobs.scan.varints import (
    VARLONG_BYTES_MAX,
    BoolArray,
    Int64Array,
    IntArray,
    VarintReader,
)


class DecodeDepth(IntEnum):
    """The last field of a record that must be read."""

    TIMESTAMP = 1
    OFFSET = 2
    KEY = 3
    VALUE = 4
    HEADERS = 5


@dataclass(slots=True)
class ByteRanges:
    """The positions of the keys or values of all records; a null has the size -1 and no bytes."""

    sizes: IntArray
    starts: Int64Array
    ends: Int64Array


@dataclass(slots=True)
class RecordFields:
    """One element for each record, except ``counts``.  A field that was not read is None."""

    counts: Int64Array  # for each batch, its number of records
    ends: Int64Array
    timestamp_deltas: IntArray
    offset_deltas: IntArray | None = None
    keys: ByteRanges | None = None
    values: ByteRanges | None = None
    header_counts: IntArray | None = None
    header_starts: Int64Array | None = None

    def repeat_per_record(self, batch_values: Any) -> Any:
        """Repeat each batch's value for each of its records."""
        return np.repeat(batch_values, self.counts)

    @property
    def batch_indexes(self) -> Int64Array:
        """For each record, the index of its batch."""
        indexes: Int64Array = self.repeat_per_record(np.arange(len(self.counts)))
        return indexes

    def __len__(self) -> int:
        return len(self.ends)


class RecordFieldReader:
    """Reads the fields of records, and marks the batches that are inconsistent."""

    def __init__(
        self, varints: VarintReader, boundaries: RecordBoundaries, last_offset_deltas: Int64Array
    ) -> None:
        self.varints = varints
        self._boundaries = boundaries
        self._last_offset_deltas = last_offset_deltas
        self.is_valid = boundaries.is_valid.copy()

    def read(self, depth: DecodeDepth) -> RecordFields:
        boundaries, read = self._boundaries, self.varints.read
        deltas, position = read(
            boundaries.starts + 1, bytes_max=VARLONG_BYTES_MAX
        )  # after the attributes
        fields = RecordFields(boundaries.counts, boundaries.ends, deltas)
        if depth >= DecodeDepth.OFFSET:
            fields.offset_deltas, position = read(position)
            self._check_offset_deltas(fields.offset_deltas)
        if depth >= DecodeDepth.KEY:
            fields.keys = self._read_byte_ranges(position)
            position = fields.keys.ends
        if depth >= DecodeDepth.VALUE:
            fields.values = self._read_byte_ranges(position)
            position = fields.values.ends
        if depth >= DecodeDepth.HEADERS:
            fields.header_counts, fields.header_starts = read(position)
            position = fields.header_starts
            self._mark_invalid(fields.header_counts < 0)
            self._mark_invalid((fields.header_counts == 0) & (position != boundaries.ends))
        self._mark_invalid(position > boundaries.ends)
        return fields

    def _read_byte_ranges(self, positions: Int64Array) -> ByteRanges:
        sizes, starts = self.varints.read(positions)
        smallest = int(sizes.min(initial=0))
        if smallest < -1:
            self._mark_invalid(sizes < -1)
        return ByteRanges(
            sizes, starts, starts + (sizes if smallest >= 0 else np.maximum(sizes, 0))
        )

    def _check_offset_deltas(self, deltas: IntArray) -> None:
        """Check that they ascend from 0 to the batch's last offset delta; gaps are allowed."""
        has_records = self._boundaries.counts > 0
        batch_ends = np.cumsum(self._boundaries.counts)[has_records]
        is_wrong = deltas < 0
        is_descending = deltas[1:] <= deltas[:-1]
        is_descending[batch_ends[:-1] - 1] = False  # from one batch to the next
        is_wrong[1:] |= is_descending
        is_wrong[batch_ends - 1] |= deltas[batch_ends - 1] > self._last_offset_deltas[has_records]
        self._mark_invalid(is_wrong)

    def _mark_invalid(self, is_invalid: BoolArray) -> None:
        if is_invalid.any():
            counts = self._boundaries.counts
            self.is_valid[np.repeat(np.arange(len(counts)), counts)[is_invalid]] = False
