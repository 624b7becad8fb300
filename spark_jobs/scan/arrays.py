"""Arrow arrays from numpy's, without an object for each element.

Owner: none; any thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odradek.protocol.records.compression import Codec
from odradek.spark_jobs.scan.columns import TIMESTAMP_TYPE
from odradek.spark_jobs.scan.varints import Bytes, Flags, Integers

_MICROSECONDS = 1000
_MILLISECONDS_MAX = (2**63 - 1) // _MICROSECONDS
_CODECS = pa.array([codec.name.lower() for codec in Codec])


def slices(buffer: Bytes, starts: Integers, sizes: Integers) -> Any:
    """The bytes at each start, which ascend; null where the size is negative.

    The buffer is taken for an array of which every other element is wanted, the rest being what
    lies between them: so one call of Arrow's copies them all.
    """
    count = len(starts)
    offsets = np.empty(2 * count + 1, dtype=np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = starts + np.maximum(sizes, 0)
    offsets[-1] = offsets[-2] if count else 0
    everything = pa.Array.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    )
    is_null = sizes < 0
    wanted = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=is_null)
    return pc.take(everything, wanted, boundscheck=False)


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


def numbers(values: Integers, arrow_type: pa.DataType, *, is_null: Flags | None = None) -> Any:
    return pa.array(values, arrow_type, mask=is_null, safe=False)


def timestamps(milliseconds: Integers) -> Any:
    is_beyond = (milliseconds > _MILLISECONDS_MAX) | (milliseconds < -_MILLISECONDS_MAX)
    if is_beyond.any():
        milliseconds = np.where(is_beyond, 0, milliseconds)
        return pa.array(milliseconds * _MICROSECONDS, TIMESTAMP_TYPE, mask=is_beyond)
    return pa.array(milliseconds * _MICROSECONDS, TIMESTAMP_TYPE)


def codec_names(codecs: Integers) -> Any:
    return pc.take(_CODECS, pa.array(codecs), boundscheck=False)


def repeated(text: str, count: int) -> Any:
    return pa.repeat(pa.scalar(text, pa.string()), count)
