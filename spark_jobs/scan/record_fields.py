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

from odradek.spark_jobs.scan.boundaries import Boundaries
from odradek.spark_jobs.scan.varints import VARLONG_BYTES_MAX, Flags, Integers, Narrow, Varints


class Depth(IntEnum):
    """How far into a record reading goes."""

    TIMESTAMP = 1
    OFFSET = 2
    KEY = 3
    VALUE = 4
    HEADERS = 5


@dataclass(slots=True)
class Contents:
    """Where the keys, or the values, of all records lie; null has the size -1 and no bytes."""

    sizes: Narrow
    starts: Integers
    ends: Integers


@dataclass(slots=True)
class Fields:
    """An element for each record; what was not wanted is None."""

    counts: Integers  # but this one: of each batch, how many records it has
    ends: Integers
    timestamp_deltas: Narrow
    offset_deltas: Narrow | None = None
    keys: Contents | None = None
    values: Contents | None = None
    header_counts: Narrow | None = None
    header_starts: Integers | None = None

    def spread(self, of_batches: Any) -> Any:
        """To each record what its batch has."""
        return np.repeat(of_batches, self.counts)

    @property
    def batches(self) -> Integers:
        """The number of its batch."""
        numbers: Integers = self.spread(np.arange(len(self.counts)))
        return numbers

    def __len__(self) -> int:
        return len(self.ends)


class Reading:
    """Reads fields of records, and remembers which batches contradict themselves."""

    def __init__(self, varints: Varints, found: Boundaries, last_deltas: Integers) -> None:
        self.varints = varints
        self._found = found
        self._last_deltas = last_deltas
        self.is_sound = found.is_sound.copy()

    def read(self, depth: Depth) -> Fields:
        found, read = self._found, self.varints.read
        deltas, at = read(found.starts + 1, bytes_max=VARLONG_BYTES_MAX)  # after the attributes
        fields = Fields(found.counts, found.ends, deltas)
        if depth >= Depth.OFFSET:
            fields.offset_deltas, at = read(at)
            self._check_offsets(fields.offset_deltas)
        if depth >= Depth.KEY:
            fields.keys = self._contents(at)
            at = fields.keys.ends
        if depth >= Depth.VALUE:
            fields.values = self._contents(at)
            at = fields.values.ends
        if depth >= Depth.HEADERS:
            fields.header_counts, fields.header_starts = read(at)
            at = fields.header_starts
            self._note(fields.header_counts < 0)
            self._note((fields.header_counts == 0) & (at != found.ends))
        self._note(at > found.ends)
        return fields

    def _contents(self, at: Integers) -> Contents:
        sizes, starts = self.varints.read(at)
        least = int(sizes.min(initial=0))
        if least < -1:
            self._note(sizes < -1)
        return Contents(sizes, starts, starts + (sizes if least >= 0 else np.maximum(sizes, 0)))

    def _check_offsets(self, deltas: Narrow) -> None:
        """They ascend from 0 to the last that the batch names, perhaps with gaps."""
        has_any = self._found.counts > 0
        after = np.cumsum(self._found.counts)[has_any]
        is_wrong = deltas < 0
        falls = deltas[1:] <= deltas[:-1]
        falls[after[:-1] - 1] = False  # from one batch to the next
        is_wrong[1:] |= falls
        is_wrong[after - 1] |= deltas[after - 1] > self._last_deltas[has_any]
        self._note(is_wrong)

    def _note(self, is_wrong: Flags) -> None:
        if is_wrong.any():
            counts = self._found.counts
            self.is_sound[np.repeat(np.arange(len(counts)), counts)[is_wrong]] = False
