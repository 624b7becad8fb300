"""Where do the records of many batches begin?

Each record says how long it is, so that one leads to the next and a batch cannot be cut anywhere
but at its beginning.  Many batches can be walked at once, though: in one step from the n-th record
of each to the next.  A step takes some 5 us, however many batches take part; where they are too
few for that, the rest of them is walked in plain Python, about 100 ns a record.

A length is never negative, so that no record begins before the one in front of it ends: if the last
of a batch ends where the batch does, all of them lie within it.

Owner: none; any thread.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odradek.spark_jobs.scan.varints import OUT_OF_BOUNDS, BoolArray, Int64Array, VarintReader

#: With fewer batches than this a step costs more than walking one by one.
LANES_MIN = 60


class BatchPayloads(NamedTuple):
    """Where in a buffer the records of each batch lie, and how many they are said to be."""

    starts: Int64Array
    ends: Int64Array
    counts: Int64Array  # not negative, nor more than there are bytes


class RecordBoundaries(NamedTuple):
    """The records of all batches, one after the other, each from after its length to its end."""

    starts: Int64Array
    ends: Int64Array
    counts: Int64Array  # of records, of each batch
    is_valid: BoolArray  # of each batch: its records follow one another and fill it

    def for_batches(self, batches: slice) -> RecordBoundaries:
        """Those of some batches that follow one another."""
        first = int(self.counts[: batches.start].sum())
        records = slice(first, first + int(self.counts[batches].sum()))
        return RecordBoundaries(
            self.starts[records], self.ends[records], self.counts[batches], self.is_valid[batches]
        )


def find_record_boundaries(varints: VarintReader, payloads: BatchPayloads) -> RecordBoundaries:
    """Whatever the bytes are: what they contradict is told of each batch."""
    positions, last_ends = _locate_records(varints, payloads)
    _, starts = varints.read(positions)
    has_any = payloads.counts > 0
    ends = np.empty_like(positions)
    ends[:-1] = positions[1:]  # where one ends the next begins
    ends[np.cumsum(payloads.counts)[has_any] - 1] = last_ends[has_any]
    return RecordBoundaries(starts, ends, payloads.counts, last_ends == payloads.ends)


def _locate_records(
    varints: VarintReader, payloads: BatchPayloads
) -> tuple[Int64Array, Int64Array]:
    """Where each record begins, with its length, and where each batch's last one ends."""
    counts = payloads.counts
    starts = np.empty(int(counts.sum()), dtype=np.int64)
    # The batches with most records first: those that take part in a step are always the first ones.
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


# How far a length of one or two bytes leads, itself included, by these bytes as one number; 0 if
# more follow.  A negative one leads nowhere.
_BYTE_PAIRS = np.arange(1 << 16)
_HAS_CONTINUATION = _BYTE_PAIRS >> 7 & 1
_UNSIGNED = _BYTE_PAIRS & 0x7F | (_BYTE_PAIRS >> 1 & 0x3F80) * _HAS_CONTINUATION
_STRIDES = np.where(_UNSIGNED & 1, OUT_OF_BOUNDS, (_UNSIGNED >> 1) + 1 + _HAS_CONTINUATION)
_STRIDES[(_HAS_CONTINUATION & _BYTE_PAIRS >> 15) == 1] = 0


def _record_strides(varints: VarintReader, positions: Int64Array) -> Int64Array:
    """How far it is from each record to the next."""
    try:
        pairs = varints.byte_pairs[positions]
    except IndexError:  # of unsound batches the positions may be anywhere
        pairs = varints.byte_pairs[np.minimum(positions, len(varints.byte_pairs) - 1)]
    strides = _STRIDES.take(pairs, mode="clip")
    if np.count_nonzero(strides) < len(strides):
        long = np.flatnonzero(strides == 0)
        lengths, bodies = varints.read(positions[long])
        strides[long] = np.where(lengths < 0, OUT_OF_BOUNDS, bodies + lengths - positions[long])
    return strides


# The same for plain Python, by one byte and the other.
_ONE_BYTE_STRIDES = [OUT_OF_BOUNDS if byte & 1 else (byte >> 1) + 1 for byte in range(128)]
_FIRST_BYTE_STRIDES = [OUT_OF_BOUNDS if byte & 1 else (byte & 127) >> 1 for byte in range(256)]
_SECOND_BYTE_STRIDES = [(byte << 6) + 2 for byte in range(128)]


def _locate_batch_records(varints: VarintReader, position: int, count: int) -> list[int]:
    """Where the records begin that follow one another from ``position``, and the last one ends."""
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
