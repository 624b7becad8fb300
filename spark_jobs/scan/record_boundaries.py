"""Find the start and end of the records of many batches.

Each record starts with its length.  One record leads to the next, so a batch can only be walked
from its start.  Many batches can be walked at once, though: one step moves from the n-th record of
each batch to the next.  A step takes about 5 us for any number of batches.  When too few batches
are left, the rest of them are walked in plain Python, at about 100 ns a record.

A length is never negative, so no record starts before the end of the previous one.  If the last
record of a batch ends where the batch ends, all of its records lie within the batch.

Owner: none; any thread.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odradek.spark_jobs.scan.varints import OUT_OF_BOUNDS, BoolArray, Int64Array, VarintReader

#: With fewer batches than this, a step costs more than walking them one by one.
LANES_MIN = 60


class BatchPayloads(NamedTuple):
    """The range of each batch's records in a buffer, and the record count in its header."""

    starts: Int64Array
    ends: Int64Array
    counts: Int64Array  # not negative, and not more than the number of bytes


class RecordBoundaries(NamedTuple):
    """The records of all batches in order, each from the end of its length field to its end."""

    starts: Int64Array
    ends: Int64Array
    counts: Int64Array  # the number of records of each batch
    is_valid: BoolArray  # for each batch: its records are contiguous and fill it

    def for_batches(self, batches: slice) -> RecordBoundaries:
        """Return the boundaries for a slice of the batches."""
        first = int(self.counts[: batches.start].sum())
        records = slice(first, first + int(self.counts[batches].sum()))
        return RecordBoundaries(
            self.starts[records], self.ends[records], self.counts[batches], self.is_valid[batches]
        )


def find_record_boundaries(varints: VarintReader, payloads: BatchPayloads) -> RecordBoundaries:
    """Find the boundaries in any bytes; ``is_valid`` marks the batches that are consistent."""
    positions, last_ends = _locate_records(varints, payloads)
    _, starts = varints.read(positions)
    has_any = payloads.counts > 0
    ends = np.empty_like(positions)
    ends[:-1] = positions[1:]  # a record ends where the next begins
    ends[np.cumsum(payloads.counts)[has_any] - 1] = last_ends[has_any]
    return RecordBoundaries(starts, ends, payloads.counts, last_ends == payloads.ends)


def _locate_records(
    varints: VarintReader, payloads: BatchPayloads
) -> tuple[Int64Array, Int64Array]:
    """Return the start of each record's length field, and the end of each batch's last record."""
    counts = payloads.counts
    starts = np.empty(int(counts.sum()), dtype=np.int64)
    # Sorted by record count, descending: the batches that take part in a step come first.
    order = np.argsort(-counts, kind="stable")
    positions, descending_counts = payloads.starts[order], counts[order]
    slots = (np.cumsum(counts) - counts)[order]
    widths = np.searchsorted(
        -descending_counts, -np.arange(descending_counts[0] if len(starts) else 0)
    ).tolist()
    for step, width in enumerate(widths):
        if width < LANES_MIN:
            for lane in range(width):
                rest = slice(int(slots[lane]) + step, int(slots[lane] + descending_counts[lane]))
                located = _locate_batch_records(
                    varints, int(positions[lane]), rest.stop - rest.start
                )
                starts[rest], positions[lane] = located[:-1], located[-1]
            break
        lanes = positions[:width]
        starts[step:][slots[:width]] = lanes
        lanes += _record_strides(varints, lanes)
    last_ends = np.empty_like(positions)
    last_ends[order] = positions
    return starts, last_ends


# The distance that a length field of one or two bytes skips, itself included, indexed by these two
# bytes as one number; 0 if the length has more bytes.  A negative length leads out of bounds.
_BYTE_PAIRS = np.arange(1 << 16)
_HAS_CONTINUATION = _BYTE_PAIRS >> 7 & 1
_UNSIGNED = _BYTE_PAIRS & 0x7F | (_BYTE_PAIRS >> 1 & 0x3F80) * _HAS_CONTINUATION
_STRIDES = np.where(_UNSIGNED & 1, OUT_OF_BOUNDS, (_UNSIGNED >> 1) + 1 + _HAS_CONTINUATION)
_STRIDES[(_HAS_CONTINUATION & _BYTE_PAIRS >> 15) == 1] = 0


def _record_strides(varints: VarintReader, positions: Int64Array) -> Int64Array:
    """Return the distance from each record to the next."""
    try:
        pairs = varints.byte_pairs[positions]
    except IndexError:  # positions of invalid batches may be out of bounds
        pairs = varints.byte_pairs[np.minimum(positions, len(varints.byte_pairs) - 1)]
    strides = _STRIDES.take(pairs, mode="clip")
    if np.count_nonzero(strides) < len(strides):
        long = np.flatnonzero(strides == 0)
        lengths, bodies = varints.read(positions[long])
        strides[long] = np.where(lengths < 0, OUT_OF_BOUNDS, bodies + lengths - positions[long])
    return strides


# The same tables for plain Python, one for each byte.
_ONE_BYTE_STRIDES = [OUT_OF_BOUNDS if byte & 1 else (byte >> 1) + 1 for byte in range(128)]
_FIRST_BYTE_STRIDES = [OUT_OF_BOUNDS if byte & 1 else (byte & 127) >> 1 for byte in range(256)]
_SECOND_BYTE_STRIDES = [(byte << 6) + 2 for byte in range(128)]


def _locate_batch_records(varints: VarintReader, position: int, count: int) -> list[int]:
    """Return the starts of ``count`` contiguous records from ``position``, and the last end."""
    source = varints.buffer.data
    one, first, second = _ONE_BYTE_STRIDES, _FIRST_BYTE_STRIDES, _SECOND_BYTE_STRIDES
    positions = [position]
    try:
        for _ in range(count):
            b = source[position]
            if b < 128:
                position += one[b]
            elif (c := source[position + 1]) < 128:
                position += first[b] + second[c]
            else:
                position += int(_record_strides(varints, np.array([position]))[0])
            positions.append(position)
    except IndexError:  # outside the buffer, hence outside the batch
        positions += [OUT_OF_BOUNDS] * (count + 1 - len(positions))
    return positions
