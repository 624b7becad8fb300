"""Zig-zag varints at many positions of a buffer at once.

Four bytes are looked at from each position, as one number whose lowest byte comes first.  Most
varints of a record have one or two bytes; those of more than four are read byte by byte, together.

Invariant: reading never looks outside the buffer, which has PADDING bytes to spare at its end, as
long as the positions lie within it.
Owner: none; any thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

#: So many bytes must follow the last position from which a varint may be read.
PADDING = 16
VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10

_WORD_BYTES = 4


class Varints:
    """The varints of a buffer."""

    def __init__(self, buffer: Bytes) -> None:
        self.bytes = buffer
        count = max(0, len(buffer) - _WORD_BYTES + 1)
        # At each byte a number that overlaps with the next.
        self._words = np.ndarray((count,), dtype="<u4", buffer=buffer, strides=(1,))

    def read(
        self, positions: Integers, *, bytes_max: int = VARINT_BYTES_MAX
    ) -> tuple[Integers, Integers]:
        """The values, and the positions after them; one that is too long leads to -1."""
        words = self._words[positions]
        if not (words & 0x80).any():
            return _zigzag((words & 0x7F).astype(np.int64)), positions + 1
        if not (words & 0x8000 & (words << 8)).any():  # no second byte that another follows
            goes_on = words >> 7 & 1
            values = words & 0x7F | (words >> 1 & 0x3F80) * goes_on
            return _zigzag(values.astype(np.int64)), positions + 1 + goes_on
        return self._read_any(words, positions, bytes_max)

    def _read_any(
        self, words: npt.NDArray[Any], positions: Integers, bytes_max: int
    ) -> tuple[Integers, Integers]:
        ends = ~words & 0x80808080
        last = ends & (~ends + 1)  # the highest bit of the first byte that nothing follows
        words = words & (last - 1)
        low = words & 0x7F | words >> 1 & 0x3F80
        values = (low | words >> 2 & 0x1FC000 | words >> 3 & 0xFE00000).astype(np.int64)
        sizes = 1 + (last > 0x80) + (last > 0x8000).astype(np.int64) + (last > 0x800000)
        after = positions + sizes
        long = np.flatnonzero(last == 0)
        if len(long):
            values[long], after[long] = self._read_long(positions[long], bytes_max)
        return _zigzag(values), after

    def _read_long(self, positions: Integers, bytes_max: int) -> tuple[Integers, Integers]:
        """Unsigned values of more than four bytes."""
        values = np.zeros(len(positions), dtype=np.int64)
        after = np.full(len(positions), -1, dtype=np.int64)
        open_ = np.arange(len(positions))
        for nth in range(bytes_max):
            found = self.bytes[positions[open_] + nth].astype(np.int64)
            values[open_] |= (found & 0x7F) << (7 * nth)
            is_last = found < 0x80
            after[open_[is_last]] = positions[open_[is_last]] + nth + 1
            open_ = open_[~is_last]
        if bytes_max == VARINT_BYTES_MAX:
            values &= 0xFFFF_FFFF  # what an int32 has no room for is dropped, as by Kafka
        return values, after


def _zigzag(values: Integers) -> Integers:
    # Unsigned, so that the highest bit of a long one is not taken for a sign.
    return (values.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(values & 1)
