"""Zig-zag varints at many positions of a buffer at once.

Most varints of a record have one or two bytes.  So two bytes are looked at from each position, as
one number, and a table says what they mean; only where they go on, more are looked at.

Invariant: reading never looks outside the buffer, which has PADDING bytes to spare at its end, as
long as the positions lie within it.
Owner: none; any thread.
"""

from __future__ import annotations

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

# Of each two bytes, the lower first: the value if that is all, and how many of them it has.
_PAIRS = np.arange(1 << 16, dtype=np.int64)
_GOES_ON = _PAIRS >> 7 & 1
_UNSIGNED = _PAIRS & 0x7F | (_PAIRS >> 1 & 0x3F80) * _GOES_ON
VALUES = (_UNSIGNED >> 1) ^ -(_UNSIGNED & 1)
#: 0 where more bytes follow.
SIZES = np.where(_GOES_ON & _PAIRS >> 15, 0, 1 + _GOES_ON)


class Varints:
    """The varints of a buffer."""

    def __init__(self, buffer: Bytes) -> None:
        self.bytes = buffer
        # At each byte a number that overlaps with the next.
        count = max(0, len(buffer) - _WORD_BYTES + 1)
        self._words = np.ndarray((count,), dtype="<u4", buffer=buffer, strides=(1,))
        self.pairs = np.ndarray((count,), dtype="<u2", buffer=buffer, strides=(1,))

    def read(
        self, positions: Integers, *, bytes_max: int = VARINT_BYTES_MAX
    ) -> tuple[Integers, Integers]:
        """The values, and the positions after them; one that is too long leads to -1."""
        pairs = self.pairs[positions]
        sizes = SIZES[pairs]
        values, after = VALUES[pairs], positions + sizes
        if not sizes.all():
            longer = np.flatnonzero(sizes == 0)
            values[longer], after[longer] = self._read_longer(positions[longer], bytes_max)
        return values, after

    def _read_longer(self, positions: Integers, bytes_max: int) -> tuple[Integers, Integers]:
        """Those of more than two bytes."""
        words = self._words[positions]
        ends = ~words & 0x80808080
        last = ends & (~ends + 1)  # the highest bit of the first byte that nothing follows
        words = words & (last - 1)
        low = words & 0x7F | words >> 1 & 0x3F80
        values = (low | words >> 2 & 0x1FC000 | words >> 3 & 0xFE00000).astype(np.int64)
        after = positions + 3 + (last > 0x800000)
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
