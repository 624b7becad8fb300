"""Decode zig-zag varints at many positions of a buffer at once.

Most varints of a record have one or two bytes.  The first byte is read at each position, the second
byte only if some varints continue, and more bytes only where those continue too.  The results are
as narrow as the values read allow, because the cost of a pass grows with the element size.

Invariant: reads stay inside the buffer, whatever the positions are.  Values read past the end are
meaningless; the caller compares the returned positions with where they should end.
Owner: none; any thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
#: Elements of one to eight bytes.
IntArray = npt.NDArray[np.signedinteger[Any]]
BoolArray = npt.NDArray[np.bool_]
ByteArray = npt.NDArray[np.uint8]

#: A buffer has this many bytes after its last meaningful byte.
PADDING_BYTES = 16
VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10
#: The position after a varint that is too long: beyond every buffer.
OUT_OF_BOUNDS = 1 << 40

_WORD_BYTES = 4


class VarintReader:
    """Reads the varints of a buffer."""

    def __init__(self, buffer: ByteArray) -> None:
        self.buffer = buffer
        self._second_bytes = buffer[1:]
        # Overlapping windows: one number at each byte.
        count = max(0, len(buffer) - _WORD_BYTES + 1)
        self._words = np.ndarray((count,), dtype="<u4", buffer=buffer, strides=(1,))
        self.byte_pairs = np.ndarray((count,), dtype="<u2", buffer=buffer, strides=(1,))

    def read(
        self, positions: Int64Array, *, bytes_max: int = VARINT_BYTES_MAX
    ) -> tuple[IntArray, Int64Array]:
        """Return the values and the positions after them, OUT_OF_BOUNDS if one is too long."""
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
        """Read varints of more than two bytes."""
        words = self._words[np.clip(positions, 0, len(self._words) - 1)]
        ends = ~words & 0x80808080
        last = ends & (~ends + 1)  # the highest bit of the first byte without continuation
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
        """Read varints of more than four bytes, as unsigned values."""
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
            values &= 0xFFFF_FFFF  # bits that do not fit into an int32 are dropped, as in Kafka
        return values, after


def _decode_zigzag(unsigned: npt.NDArray[Any]) -> IntArray:
    signed: IntArray = ((unsigned >> 1) ^ -(unsigned & 1)).view(f"i{unsigned.itemsize}")
    return signed
