"""Arrow arrays from numpy's, without an object for each element.

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
from odradek.spark_jobs.scan.varints import Bytes, Flags, Integers, Narrow

_MICROSECONDS = 1000
_MILLISECONDS_MAX = (2**63 - 1) // _MICROSECONDS
_CODECS = pa.array([codec.name.lower() for codec in Codec])
_OFFSET_MAX = 2**31 - 1
_ALIGNED_BYTES = 64  # what Arrow rounds sizes up to


def slices(buffer: Bytes, starts: Integers, ends: Integers, *, is_null: Flags | None) -> Any:
    """The bytes from each start to its end, which all ascend; of a null there are none.

    The buffer is taken for an array of which every other element is wanted, the rest being what
    lies between them: so one call of Arrow's copies them all.  It sets memory aside for elements of
    average size; so the last, which nobody wants, reaches as far behind the others as makes the
    average right.  Else most bytes would be copied once more, when that memory has to grow.
    """
    count = len(starts)
    if count == 0:
        return pa.array([], pa.binary())
    offsets = np.empty(2 * count + 1, dtype=np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = ends
    room = -(-int(ends.sum() - starts.sum()) // _ALIGNED_BYTES) * _ALIGNED_BYTES
    offsets[-1] = min(int(offsets[0]) + 2 * room + 1, len(buffer), _OFFSET_MAX)
    everything = pa.Array.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    )
    wanted = _even_numbers((count - 1).bit_length()).slice(0, count)
    taken = pc.take(everything, wanted, boundscheck=False)
    if is_null is None or not is_null.any():
        return taken
    return pa.Array.from_buffers(taken.type, count, [_validity(is_null), *taken.buffers()[1:]])


@lru_cache(maxsize=32)
def _even_numbers(bits: int) -> Any:
    return pa.array(np.arange(0, 2 << bits, 2, dtype=np.int32))


def _validity(is_null: Flags) -> Any:
    return pa.py_buffer(np.packbits(~is_null, bitorder="little"))


def texts(binary: Any) -> Any:
    """As strings; what is not UTF-8 has a mark in place of what is wrong."""
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [
                None if each is None else each.decode("utf-8", "replace")
                for each in binary.to_pylist()
            ],
            pa.string(),
        )


def numbers(values: Narrow, arrow_type: pa.DataType, *, is_null: Flags | None = None) -> Any:
    """They must fit into the type."""
    wide = np.ascontiguousarray(values, dtype=arrow_type.to_pandas_dtype())
    validity = None if is_null is None or not is_null.any() else _validity(is_null)
    return pa.Array.from_buffers(arrow_type, len(values), [validity, pa.py_buffer(wide)])


def timestamps(milliseconds: Integers) -> Any:
    is_beyond = None
    largest = max(int(milliseconds.max(initial=0)), -int(milliseconds.min(initial=0)))
    if largest > _MILLISECONDS_MAX:
        is_beyond = (milliseconds > _MILLISECONDS_MAX) | (milliseconds < -_MILLISECONDS_MAX)
        milliseconds = np.where(is_beyond, 0, milliseconds)
    microseconds = pa.py_buffer(milliseconds * _MICROSECONDS)
    validity = None if is_beyond is None else _validity(is_beyond)
    return pa.Array.from_buffers(TIMESTAMP_TYPE, len(milliseconds), [validity, microseconds])


def codec_names(codecs: Integers) -> Any:
    return pc.take(_CODECS, pa.array(codecs), boundscheck=False)


def repeated(text: str, count: int) -> Any:
    return pa.repeat(pa.scalar(text, pa.string()), count)
