"""Builds the batch that is appended to an internal topic.

Offset commits are small single records, and they are frequent.  ``build_plain_batch`` writes an
uncompressed batch with as few calls as possible.  ``build_batch`` uses BatchBuilder for compressed
and transactional batches.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from odradek.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    CHECKSUM_POSITION,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
)
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.crc32c import crc32c
from odradek.protocol.records.record import write_record

#: Key and value.  A value of None is a tombstone for the key.
KeyValue = tuple[bytes, bytes | None]

_CHECKSUM = Struct(">I")
_EMPTY_HEADER = bytes(HEADER_BYTES)


def build_plain_batch(records: Iterable[KeyValue], *, timestamp: int) -> bytearray:
    """Build an uncompressed batch without a producer id; ``records`` must not be empty."""
    buffer, count = bytearray(_EMPTY_HEADER), 0
    for key, value in records:
        write_record(
            buffer, timestamp_delta=0, offset_delta=count, key=key, value=value, headers=()
        )
        count += 1
    size_bytes = len(buffer) - LOG_OVERHEAD_BYTES
    HEADER.pack_into(
        buffer,
        0,
        0,
        size_bytes,
        -1,
        MAGIC,
        0,
        0,
        count - 1,
        timestamp,
        timestamp,
        -1,
        -1,
        -1,
        count,
    )
    checksum = crc32c(memoryview(buffer)[ATTRIBUTES_POSITION:])
    _CHECKSUM.pack_into(buffer, CHECKSUM_POSITION, checksum)
    return buffer


def build_batch(records: Iterable[KeyValue], *, timestamp: int, fields: BatchFields) -> bytearray:
    """Build a compressed or transactional batch, according to ``fields``."""
    builder = BatchBuilder(fields)
    for key, value in records:
        builder.append(timestamp=timestamp, key=key, value=value)
    return builder.build()
