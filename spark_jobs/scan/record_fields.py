"""The fields of records of magic 2, for all records of some batches at once.

Fields stand one behind the other and each tells where the next begins, so that they are read in
order, as far as the last one that is wanted:

    timestamp delta, offset delta, key length, key, value length, value, number of headers, headers

What is read is checked: what was read last ends within the record, and so does all before it, since
nothing is shorter than empty; offsets ascend within the batch; and where all of it is read, it
fills the record.  What nobody wants is not looked at.

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
    """How far into a record reading goes."""

    TIMESTAMP = 1
    OFFSET = 2
    KEY = 3
    VALUE = 4
    HEADERS = 5


@dataclass(slots=True)
class ByteRanges:
    """Where the keys, or the values, of all records lie; null has the size -1 and no bytes."""

    sizes: IntArray
    starts: Int64Array
    ends: Int64Array


@dataclass(slots=True)
class RecordFields:
    """An element for each record; what was not wanted is None."""

    counts: Int64Array  # but this one: of each batch, how many records it has
    ends: Int64Array
    timestamp_deltas: IntArray
    offset_deltas: IntArray | None = None
    keys: ByteRanges | None = None
    values: ByteRanges | None = None
    header_counts: IntArray | None = None
    header_starts: Int64Array | None = None

    def repeat_per_record(self, batch_values: Any) -> Any:
        """To each record what its batch has."""
        return np.repeat(batch_values, self.counts)

    @property
    def batch_indexes(self) -> Int64Array:
        """The number of its batch."""
        indexes: Int64Array = self.repeat_per_record(np.arange(len(self.counts)))
        return indexes

    def __len__(self) -> int:
        return len(self.ends)


class RecordFieldReader:
    """Reads fields of records, and remembers which batches contradict themselves."""

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
        """They ascend from 0 to the last that the batch names, perhaps with gaps."""
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
