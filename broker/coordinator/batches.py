"""Records of an internal topic as the one batch that is appended.

An offset commit is one small record, and there are many: a plain batch is written here with as few
calls as possible.  What is compressed or part of a transaction is left to the builder.

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

#: Key and value; without a value, it says that the key is no more.
KeyValue = tuple[bytes, bytes | None]

_CHECKSUM = Struct(">I")
_EMPTY_HEADER = bytes(HEADER_BYTES)


def build_plain_batch(records: Iterable[KeyValue], *, timestamp: int) -> bytearray:
    """Uncompressed, and of no producer; there must be a record."""
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
    """Compressed, or in a transaction, as ``fields`` say."""
    builder = BatchBuilder(fields)
    for key, value in records:
        builder.append(timestamp=timestamp, key=key, value=value)
    return builder.build()
