"""Build Arrow arrays from numpy arrays, without a Python object for each element.

Owner: none; any thread.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odradek.protocol.records.compression import Codec
from odradek.spark_jobs.scan.columns import TIMESTAMP_TYPE
from odradek.spark_jobs.scan.varints import BoolArray, ByteArray, Int64Array, IntArray

_MICROSECONDS_PER_MILLISECOND = 1000
_MILLISECONDS_MAX = (2**63 - 1) // _MICROSECONDS_PER_MILLISECOND
_CODEC_NAMES = pa.array([codec.name.lower() for codec in Codec])
_ARROW_OFFSET_MAX = 2**31 - 1
_ALIGNMENT_BYTES = 64  # Arrow rounds buffer sizes up to a multiple of this


def binary_array(
    buffer: ByteArray, starts: Int64Array, ends: Int64Array, *, is_null: BoolArray | None
) -> Any:
    """Return the bytes from each start to its end.  Starts and ends ascend; a null has no bytes.

    The buffer is read as an array of ``2 * count`` elements, in which each wanted element is
    followed by the gap before the next.  One Arrow ``take`` then copies every second element.
    Arrow allocates memory for elements of average size.  The last gap is not copied, so its end is
    chosen to make the average right.  Otherwise Arrow would have to grow the memory and copy most
    of the bytes again.
    """
    count = len(starts)
    if count == 0:
        return pa.array([], pa.binary())
    offsets = np.empty(2 * count + 1, dtype=np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = ends
    padded_bytes = -(-int(ends.sum() - starts.sum()) // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    offsets[-1] = min(int(offsets[0]) + 2 * padded_bytes + 1, len(buffer), _ARROW_OFFSET_MAX)
    alternating = pa.Array.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    )
    even_indexes = _even_numbers((count - 1).bit_length()).slice(0, count)
    values = pc.take(alternating, even_indexes, boundscheck=False)
    if is_null is None or not is_null.any():
        return values
    return pa.Array.from_buffers(
        values.type, count, [_validity_bitmap(is_null), *values.buffers()[1:]]
    )


@lru_cache(maxsize=32)
def _even_numbers(bits: int) -> Any:
    return pa.array(np.arange(0, 2 << bits, 2, dtype=np.int32))


def _validity_bitmap(is_null: BoolArray) -> Any:
    return pa.py_buffer(np.packbits(~is_null, bitorder="little"))


def string_array(binary: Any) -> Any:
    """Convert to strings; invalid UTF-8 sequences become replacement characters."""
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [
                None if content is None else content.decode("utf-8", "replace")
                for content in binary.to_pylist()
            ],
            pa.string(),
        )


def integer_array(
    values: IntArray, arrow_type: pa.DataType, *, is_null: BoolArray | None = None
) -> Any:
    """Build an integer array.  The values must fit into the type."""
    wide = np.ascontiguousarray(values, dtype=arrow_type.to_pandas_dtype())
    validity = None if is_null is None or not is_null.any() else _validity_bitmap(is_null)
    return pa.Array.from_buffers(arrow_type, len(values), [validity, pa.py_buffer(wide)])


def timestamp_array(milliseconds: Int64Array) -> Any:
    is_beyond = None
    largest = max(int(milliseconds.max(initial=0)), -int(milliseconds.min(initial=0)))
    if largest > _MILLISECONDS_MAX:
        is_beyond = (milliseconds > _MILLISECONDS_MAX) | (milliseconds < -_MILLISECONDS_MAX)
        milliseconds = np.where(is_beyond, 0, milliseconds)
    microseconds = pa.py_buffer(milliseconds * _MICROSECONDS_PER_MILLISECOND)
    validity = None if is_beyond is None else _validity_bitmap(is_beyond)
    return pa.Array.from_buffers(TIMESTAMP_TYPE, len(milliseconds), [validity, microseconds])


def codec_name_array(codecs: Int64Array) -> Any:
    return pc.take(_CODEC_NAMES, pa.array(codecs), boundscheck=False)


def constant_array(text: str, count: int) -> Any:
    return pa.repeat(pa.scalar(text, pa.string()), count)
