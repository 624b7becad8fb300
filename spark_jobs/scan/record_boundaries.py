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

from odradek.spark_jobs.scan.varints import NOWHERE, Flags, Integers, Varints

#: With fewer batches than this a step costs more than walking one by one.
LANES_MIN = 60


class Areas(NamedTuple):
    """Where in a buffer the records of each batch lie, and how many they are said to be."""

    starts: Integers
    ends: Integers
    counts: Integers  # not negative, nor more than there are bytes


class Boundaries(NamedTuple):
    """The records of all batches, one after the other, each from after its length to its end."""

    starts: Integers
    ends: Integers
    counts: Integers  # of records, of each batch
    is_sound: Flags  # of each batch: its records follow one another and fill it

    def of_batches(self, batches: slice) -> Boundaries:
        """Those of some batches that follow one another."""
        first = int(self.counts[: batches.start].sum())
        records = slice(first, first + int(self.counts[batches].sum()))
        return Boundaries(
            self.starts[records], self.ends[records], self.counts[batches], self.is_sound[batches]
        )


def boundaries(varints: Varints, areas: Areas) -> Boundaries:
    """Whatever the bytes are: what they contradict is told of each batch."""
    positions, reached = _walk_all(varints, areas)
    _, starts = varints.read(positions)
    has_any = areas.counts > 0
    ends = np.empty_like(positions)
    ends[:-1] = positions[1:]  # where one ends the next begins
    ends[np.cumsum(areas.counts)[has_any] - 1] = reached[has_any]
    return Boundaries(starts, ends, areas.counts, reached == areas.ends)


def _walk_all(varints: Varints, areas: Areas) -> tuple[Integers, Integers]:
    """Where each record begins, with its length, and where each batch's last one ends."""
    counts = areas.counts
    found = np.empty(int(counts.sum()), dtype=np.int64)
    # The batches with most records first: those that take part in a step are always the first ones.
    order = np.argsort(-counts, kind="stable")
    positions, falling = areas.starts[order], counts[order]
    slots = (np.cumsum(counts) - counts)[order]
    widths = np.searchsorted(-falling, -np.arange(falling[0] if len(found) else 0)).tolist()
    for step, width in enumerate(widths):
        if width < LANES_MIN:
            for lane in range(width):
                rest = slice(int(slots[lane]) + step, int(slots[lane] + falling[lane]))
                walked = _walk_one(varints, int(positions[lane]), rest.stop - rest.start)
                found[rest], positions[lane] = walked[:-1], walked[-1]
            break
        lanes = positions[:width]
        found[step:][slots[:width]] = lanes
        lanes += _jumps(varints, lanes)
    reached = np.empty_like(positions)
    reached[order] = positions
    return found, reached


# How far a length of one or two bytes leads, itself included, by these bytes as one number; 0 if
# more follow.  A negative one leads nowhere.
_PAIRS = np.arange(1 << 16)
_GOES_ON = _PAIRS >> 7 & 1
_UNSIGNED = _PAIRS & 0x7F | (_PAIRS >> 1 & 0x3F80) * _GOES_ON
_JUMPS = np.where(_UNSIGNED & 1, NOWHERE, (_UNSIGNED >> 1) + 1 + _GOES_ON)
_JUMPS[(_GOES_ON & _PAIRS >> 15) == 1] = 0


def _jumps(varints: Varints, positions: Integers) -> Integers:
    """How far it is from each record to the next."""
    try:
        pairs = varints.pairs[positions]
    except IndexError:  # of unsound batches the positions may be anywhere
        pairs = varints.pairs[np.minimum(positions, len(varints.pairs) - 1)]
    jumps = _JUMPS.take(pairs, mode="clip")
    if np.count_nonzero(jumps) < len(jumps):
        long = np.flatnonzero(jumps == 0)
        lengths, bodies = varints.read(positions[long])
        jumps[long] = np.where(lengths < 0, NOWHERE, bodies + lengths - positions[long])
    return jumps


# The same for plain Python, by one byte and the other.
_ONE = [NOWHERE if byte & 1 else (byte >> 1) + 1 for byte in range(128)]
_FIRST = [NOWHERE if byte & 1 else (byte & 127) >> 1 for byte in range(256)]
_SECOND = [(byte << 6) + 2 for byte in range(128)]


def _walk_one(varints: Varints, position: int, count: int) -> list[int]:
    """Where the records begin that follow one another from ``position``, and the last one ends."""
    source = varints.bytes.data
    one, first, second = _ONE, _FIRST, _SECOND
    found = [position]
    try:
        for _ in range(count):
            b = source[position]
            if b < 128:
                position += one[b]
            elif (c := source[position + 1]) < 128:
                position += first[b] + second[c]
            else:
                position += int(_jumps(varints, np.array([position]))[0])
            found.append(position)
    except IndexError:  # outside the buffer, hence outside the batch
        found += [NOWHERE] * (count + 1 - len(found))
    return found
