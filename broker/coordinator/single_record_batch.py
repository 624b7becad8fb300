"""Fast reader for the most frequent batch of a coordinator: one plain record.

A log of offset commits consists of millions of batches with one record, uncompressed and not
transactional.  One function reads such a batch in half the time of the general reader.  It returns
None for any other batch and for a damaged one.  The general reader then handles the batch and
reports the damage.

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

#: The fields of the batch header that are checked; see protocol/records/batch.py.
_HEADER = Struct(">qi4xbIhi30xi")
assert _HEADER.size == HEADER_BYTES
_unpack = _HEADER.unpack_from
_new_tuple = tuple.__new__
#: A header and the shortest possible record.
_MIN_BATCH_BYTES = HEADER_BYTES + 7


class SingleRecord(NamedTuple):
    """The record, and the position of the next batch."""

    offset: int
    key: bytes
    value: bytes | None
    next_position: int


def read_single_record_batch(buffer: bytes, view: memoryview, position: int) -> SingleRecord | None:
    """Return the record of the batch at ``position``; None if the batch is of another kind.

    The batch must be complete and its checksum correct.  ``view`` is a view of ``buffer``.
    """
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
    """Parse the record of a batch.

    Lengths are zigzag varints: an even value is twice a length, an odd value is negative.  Only
    varints of one or two bytes are parsed here; the second byte holds the higher bits.
    """
    length, position = buffer[position], position + 1
    if length > 127:
        length, position = length & 127 | buffer[position] << 7, position + 1
    if (
        length & 1
        or position + (length >> 1) != end
        or buffer[position : position + 3] != b"\0\0\0"
    ):
        return None  # a longer varint, attributes, or a timestamp or offset delta
    key_length, position = buffer[position + 3], position + 4
    if key_length > 127:
        key_length, position = key_length & 127 | buffer[position] << 7, position + 1
    value_at = position + (key_length >> 1)
    if key_length & 1 or value_at + 2 > end:
        return None  # a null key, or a longer varint
    key, value_length, position = buffer[position:value_at], buffer[value_at], value_at + 1
    if value_length == 1:  # zigzag for -1: a null value
        is_whole = buffer[position:end] == b"\0"
        return _new_tuple(SingleRecord, (offset, key, None, end)) if is_whole else None
    if value_length > 127:
        value_length, position = value_length & 127 | buffer[position] << 7, position + 1
    value_end = position + (value_length >> 1)
    if value_length & 1 or value_end + 1 != end or buffer[value_end]:
        return None  # headers, or a longer varint
    return _new_tuple(SingleRecord, (offset, key, buffer[position:value_end], end))
