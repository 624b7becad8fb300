"""The fields of records of magic 2, for all records of a group of batches at once.

Fields stand one behind the other and each tells where the next begins, so that they are read in
order, as far as the last one that is wanted:

    timestamp delta, offset delta, key length, key, value length, value, number of headers, headers

What is read is checked: lengths stay within the record, offsets ascend within the batch, and where
all of it is read, it fills the record.  What nobody wants is not looked at.

Owner: none; any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from odradek.spark_jobs.scan.boundaries import Boundaries
from odradek.spark_jobs.scan.varints import PADDING, VARLONG_BYTES_MAX, Flags, Integers, Varints


class Depth(IntEnum):
    """How far into a record reading goes."""

    TIMESTAMP = 1
    OFFSET = 2
    KEY = 3
    VALUE = 4
    HEADERS = 5


@dataclass(slots=True)
class Fields:
    """An element for each record; what was not wanted is None."""

    batches: Integers  # the number of its batch
    ends: Integers
    timestamp_deltas: Integers
    offset_deltas: Integers | None = None
    key_starts: Integers | None = None
    key_sizes: Integers | None = None  # -1 for null
    value_starts: Integers | None = None
    value_sizes: Integers | None = None
    header_counts: Integers | None = None
    header_starts: Integers | None = None

    def __len__(self) -> int:
        return len(self.batches)


class Reading:
    """Reads fields of records, and remembers which batches contradict themselves."""

    def __init__(self, varints: Varints, found: Boundaries, last_deltas: Integers) -> None:
        self._varints = varints
        self._found = found
        self._last_deltas = last_deltas
        self._limit = len(varints.bytes) - PADDING
        # Of unsound batches, records may claim to end anywhere.
        self._ends = np.minimum(found.ends, self._limit)
        self.is_sound = found.is_sound.copy()

    def read(self, depth: Depth) -> Fields:
        found, read = self._found, self._varints.read
        # Of unsound batches the positions may be anywhere; they are read, and thrown away.
        at = np.clip(found.starts + 1, 0, self._limit)  # after the attributes
        deltas, at = read(at, bytes_max=VARLONG_BYTES_MAX)
        fields = Fields(found.batches, found.ends, deltas)
        if depth >= Depth.OFFSET:
            fields.offset_deltas, at = read(self._within(at))
            self._check_offsets(fields.offset_deltas)
        if depth >= Depth.KEY:
            fields.key_sizes, fields.key_starts = read(self._within(at))
            at = self._after(fields.key_starts, fields.key_sizes)
        if depth >= Depth.VALUE:
            fields.value_sizes, fields.value_starts = read(self._within(at))
            at = self._after(fields.value_starts, fields.value_sizes)
        if depth >= Depth.HEADERS:
            fields.header_counts, fields.header_starts = read(self._within(at))
            at = fields.header_starts
            self._note(fields.header_counts < 0)
            self._note((fields.header_counts == 0) & (at != found.ends))
        self._note((at < 0) | (at > found.ends))
        return fields

    def _after(self, starts: Integers, sizes: Integers) -> Integers:
        self._note((starts < 0) | (sizes < -1))
        return starts + np.maximum(sizes, 0)

    def _within(self, positions: Integers) -> Integers:
        """The same positions unless they lie outside the record, which is noted."""
        is_outside = (positions < 0) | (positions >= self._ends)
        if is_outside.any():
            self._note(is_outside)
            return np.clip(positions, 0, self._limit)
        return positions

    def _check_offsets(self, deltas: Integers) -> None:
        """They ascend from 0 to the last that the batch names, perhaps with gaps."""
        batches = self._found.batches
        is_wrong = (deltas < 0) | (deltas > self._last_deltas[batches])
        is_wrong[1:] |= (deltas[1:] <= deltas[:-1]) & (batches[1:] == batches[:-1])
        self._note(is_wrong)

    def _note(self, is_wrong: Flags) -> None:
        if is_wrong.any():
            self.is_sound[self._found.batches[is_wrong]] = False
