"""Where do the records of many batches begin?

Each record says how long it is, so that one leads to the next and a batch cannot be cut anywhere
but at its beginning.  Many batches can be walked at once, though: in one step from the n-th record
of each to the next.  A step takes some 10 us, however many batches take part; where they are too
few for that, the rest of them is walked in plain Python, about 100 ns a record.

Owner: none; any thread.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odradek.spark_jobs.scan.varints import PADDING, SIZES, VALUES, Flags, Integers, Varints

#: With fewer batches than this a step costs more than walking one by one.
LANES_MIN = 100


class Boundaries(NamedTuple):
    """The records of all batches, one after the other, each from after its length to its end."""

    starts: Integers
    ends: Integers
    batches: Integers  # the number of the batch that each is in
    is_sound: Flags  # of each batch: its records follow one another and fill it


class Areas(NamedTuple):
    """Where in a buffer the records of each batch lie, and how many they are said to be."""

    starts: Integers
    ends: Integers
    counts: Integers  # not negative, nor more than there are bytes


def boundaries(varints: Varints, areas: Areas) -> Boundaries:
    """Whatever the bytes are: what they contradict is told of each batch."""
    counts = areas.counts
    batches = np.repeat(np.arange(len(counts)), counts)
    lengths, starts = varints.read(_positions(varints, areas))
    ends = starts + lengths
    return Boundaries(starts, ends, batches, _are_sound(starts, ends, batches, areas))


def _positions(varints: Varints, areas: Areas) -> Integers:
    """Where each record begins, with its length."""
    counts = areas.counts
    found = np.empty(int(counts.sum()), dtype=np.int64)
    # The batches with most records first: those that take part in a step are always the first ones.
    order = np.argsort(-counts, kind="stable")
    positions, slots = areas.starts[order], (np.cumsum(counts) - counts)[order]
    falling = counts[order]
    limit = len(varints.bytes) - PADDING
    step_count = int(falling[0]) if len(found) else 0
    widths = np.searchsorted(-falling, -np.arange(step_count)).tolist()
    for step, width in enumerate(widths):
        if width < LANES_MIN:
            for lane in range(width):
                rest = slice(int(slots[lane]), int(slots[lane]) + int(falling[lane]) - step)
                found[rest] = _walk(varints, int(positions[lane]), rest.stop - rest.start)
            break
        positions, slots = positions[:width], slots[:width]
        found[slots] = positions
        pairs = varints.pairs[positions]
        jumps = _JUMPS[pairs]
        if not jumps.all():
            long = np.flatnonzero(jumps == 0)
            lengths, bodies = varints.read(positions[long])
            jumps[long] = np.where(lengths < 0, _NOWHERE, bodies + lengths - positions[long])
        positions = np.minimum(positions + jumps, limit)  # wherever a wrong length leads
        slots = slots + 1
    return found


# How far a length of one or two bytes leads, itself included; 0 if more follow.  A negative one
# leads nowhere.
_NOWHERE = 1 << 40
_JUMPS = np.where(SIZES == 0, 0, np.where(VALUES < 0, _NOWHERE, VALUES + SIZES))

# The same for plain Python, by one byte and the other.
_ONE = [_NOWHERE if byte & 1 else (byte >> 1) + 1 for byte in range(128)]
_FIRST = [_NOWHERE if byte & 1 else (byte & 127) >> 1 for byte in range(256)]
_SECOND = [(byte << 6) + 2 for byte in range(128)]


def _walk(varints: Varints, position: int, count: int) -> Integers:
    """Where the records begin that follow one another from ``position``."""
    source = varints.bytes.data
    one, first, second = _ONE, _FIRST, _SECOND
    limit = len(source) - PADDING
    found = [position]
    try:
        for _ in range(count - 1):
            b = source[position]
            if b < 128:
                position += one[b]
            elif (c := source[position + 1]) < 128:
                position += first[b] + second[c]
            else:
                position = _after_long(varints, position)
            found.append(position)
    except IndexError:  # outside the buffer, hence outside the batch, which is found out from this
        found += [limit] * (count - len(found))
    return np.minimum(np.array(found, dtype=np.int64), limit)


def _after_long(varints: Varints, position: int) -> int:
    """Where the record ends whose length, of more than two bytes, is at ``position``."""
    lengths, bodies = varints.read(np.array([position], dtype=np.int64))
    end = int(bodies[0] + lengths[0])
    return end if end > position else _NOWHERE


def _are_sound(starts: Integers, ends: Integers, batches: Integers, areas: Areas) -> Flags:
    is_wrong = (starts < 0) | (ends < starts) | (ends > areas.ends[batches])
    is_sound = np.bincount(batches, is_wrong, len(areas.counts)) == 0
    has_any = areas.counts > 0
    last = np.cumsum(areas.counts)[has_any] - 1
    reached = areas.starts.copy()
    reached[has_any] = ends[last]
    sound: Flags = is_sound & (reached == areas.ends)
    return sound
