"""Zig-zag varints at many positions of a buffer at once.

Most varints of a record have one or two bytes.  So the first byte at each position is looked at,
the second only if some go on, and more only where those go on too.  Numbers are as narrow as what
was read allows: a pass over them costs as much as they have bytes.

Invariant: reading never looks outside the buffer, wherever the positions are: what is read beyond
its end means nothing, and who asked for it compares the positions with where they should end.
Owner: none; any thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
#: Of one to eight bytes each.
IntArray = npt.NDArray[np.signedinteger[Any]]
BoolArray = npt.NDArray[np.bool_]
ByteArray = npt.NDArray[np.uint8]

#: So many bytes follow the last that means something.
PADDING_BYTES = 16
VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10
#: Where a varint leads that is too long: beyond every buffer.
OUT_OF_BOUNDS = 1 << 40

_WORD_BYTES = 4


class VarintReader:
    """The varints of a buffer."""

    def __init__(self, buffer: ByteArray) -> None:
        self.buffer = buffer
        self._second_bytes = buffer[1:]
        # At each byte a number that overlaps with the next.
        count = max(0, len(buffer) - _WORD_BYTES + 1)
        self._words = np.ndarray((count,), dtype="<u4", buffer=buffer, strides=(1,))
        self.byte_pairs = np.ndarray((count,), dtype="<u2", buffer=buffer, strides=(1,))

    def read(
        self, positions: Int64Array, *, bytes_max: int = VARINT_BYTES_MAX
    ) -> tuple[IntArray, Int64Array]:
        """The values, and the positions after them, NOWHERE for one that is too long."""
        first = self.buffer.take(positions, mode="clip")
        if first.max(initial=0) < 0x80:
            return _decode_zigzag(first), positions + 1
        has_second = first >> 7
        second = self._second_bytes.take(positions, mode="clip") * has_second
        values = _decode_zigzag(first & 0x7F | second.astype(np.uint16) << 7)
        after = positions + (has_second + 1)
        if second.max() >= 0x80:
            long_indexes = np.flatnonzero(second >= 0x80)
            values = values.astype(np.int64)
            values[long_indexes], after[long_indexes] = self._read_three_or_more_bytes(
                positions[long_indexes], bytes_max
            )
        return values, after

    def _read_three_or_more_bytes(
        self, positions: Int64Array, bytes_max: int
    ) -> tuple[IntArray, Int64Array]:
        """Those of more than two bytes."""
        words = self._words[np.clip(positions, 0, len(self._words) - 1)]
        ends = ~words & 0x80808080
        last = ends & (~ends + 1)  # the highest bit of the first byte that nothing follows
        words = words & (last - 1)
        low = words & 0x7F | words >> 1 & 0x3F80
        values = (low | words >> 2 & 0x1FC000 | words >> 3 & 0xFE00000).astype(np.uint64)
        after = positions + 3 + (last > 0x800000)
        long = np.flatnonzero(last == 0)
        if len(long):
            values[long], after[long] = self._read_five_or_more_bytes(positions[long], bytes_max)
        return _decode_zigzag(values), after

    def _read_five_or_more_bytes(
        self, positions: Int64Array, bytes_max: int
    ) -> tuple[npt.NDArray[np.uint64], Int64Array]:
        """Unsigned values of more than four bytes."""
        values = np.zeros(len(positions), dtype=np.uint64)
        after = np.full(len(positions), OUT_OF_BOUNDS, dtype=np.int64)
        unfinished = np.arange(len(positions))
        for nth in range(bytes_max):
            bytes_at_nth = self.buffer.take(positions[unfinished] + nth, mode="clip").astype(
                np.uint64
            )
            values[unfinished] |= (bytes_at_nth & 0x7F) << (7 * nth)
            is_last = bytes_at_nth < 0x80
            after[unfinished[is_last]] = positions[unfinished[is_last]] + nth + 1
            unfinished = unfinished[~is_last]
        if bytes_max == VARINT_BYTES_MAX:
            values &= 0xFFFF_FFFF  # what an int32 has no room for is dropped, as by Kafka
        return values, after


def _decode_zigzag(unsigned: npt.NDArray[Any]) -> IntArray:
    signed: IntArray = ((unsigned >> 1) ^ -(unsigned & 1)).view(f"i{unsigned.itemsize}")
    return signed
