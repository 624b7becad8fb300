"""Batches as a coordinator writes them most: one record, neither compressed nor in a transaction.

A log of offset commits is nearly all of these, and has millions of them: they are read here by one
function, in half the time that it takes to look at a batch and then at its records.  Whatever is
otherwise, or not as it should be, is left to those who read any batch, and who say what is wrong.

Owner: none; any thread.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from odradek.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
)
from odradek.protocol.records.crc32c import crc32c

#: What matters of a batch's header: see protocol/records/batch.py.
_HEADER = Struct(">qi4xbIhi30xi")
assert _HEADER.size == HEADER_BYTES
_unpack = _HEADER.unpack_from
_new_tuple = tuple.__new__
#: A header, and a record that is as short as can be.
_MIN_BATCH_BYTES = HEADER_BYTES + 7


class SingleRecord(NamedTuple):
    """The record, and where the batch after its own begins."""

    offset: int
    key: bytes
    value: bytes | None
    next_position: int


def read_single_record_batch(buffer: bytes, view: memoryview, position: int) -> SingleRecord | None:
    """What is at ``position``, if it is such a batch, whole and sound; ``view`` is of ``piece``."""
    if len(buffer) - position < _MIN_BATCH_BYTES:
        return None
    offset, length, magic, checksum, attributes, last_delta, count = _unpack(buffer, position)
    end = position + LOG_OVERHEAD_BYTES + length
    if (
        magic != MAGIC
        or attributes
        or last_delta
        or count != 1
        or not position + _MIN_BATCH_BYTES <= end <= len(buffer)
        or checksum != crc32c(view[position + ATTRIBUTES_POSITION : end])
    ):
        return None
    return _parse_record(buffer, position + HEADER_BYTES, end, offset)


def _parse_record(buffer: bytes, position: int, end: int, offset: int) -> SingleRecord | None:
    """A varint of one byte is half of it, one of two has its rest in the second; even: positive."""
    length, position = buffer[position], position + 1
    if length > 127:
        length, position = length & 127 | buffer[position] << 7, position + 1
    if (
        length & 1
        or position + (length >> 1) != end
        or buffer[position : position + 3] != b"\0\0\0"
    ):
        return None  # of more than two bytes, or with a time and an offset of its own
    key_length, position = buffer[position + 3], position + 4
    if key_length > 127:
        key_length, position = key_length & 127 | buffer[position] << 7, position + 1
    value_at = position + (key_length >> 1)
    if key_length & 1 or value_at + 2 > end:
        return None  # without a key
    key, value_length, position = buffer[position:value_at], buffer[value_at], value_at + 1
    if value_length == 1:  # minus one: null
        is_whole = buffer[position:end] == b"\0"
        return _new_tuple(SingleRecord, (offset, key, None, end)) if is_whole else None
    if value_length > 127:
        value_length, position = value_length & 127 | buffer[position] << 7, position + 1
    value_end = position + (value_length >> 1)
    if value_length & 1 or value_end + 1 != end or buffer[value_end]:
        return None  # or with headers
    return _new_tuple(SingleRecord, (offset, key, buffer[position:value_end], end))
