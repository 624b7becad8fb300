"""Short ways to write batches of magic 2, right and wrong."""

from struct import pack_into
from typing import Any

from odradek.protocol.records.batch import ATTRIBUTES_POSITION, CHECKSUM_POSITION, HEADER_BYTES
from odradek.protocol.records.builder import BatchBuilder, BatchFields
from odradek.protocol.records.compression import Codec
from odradek.protocol.records.crc32c import crc32c
from odradek.protocol.records.record import Record


def batch_of(*records: Record | bytes, last_offset: int | None = None, **fields: Any) -> bytearray:
    """A batch with these records; bytes stand for a value at the next offset and timestamp 0."""
    builder = BatchBuilder(BatchFields(**fields))
    for record in records:
        if isinstance(record, bytes):
            builder.append(timestamp=0, key=None, value=record)
        else:
            offset, timestamp, key, value, headers = record
            builder.append(
                offset=offset, timestamp=timestamp, key=key, value=value, headers=headers
            )
    return builder.build(last_offset=last_offset)


def batch_around(records: bytes, *, count: int, last_delta: int, codec: int = Codec.NONE) -> bytes:
    """A batch whose header says so, whatever ``records`` are; its length and checksum are right."""
    batch = batch_of(b"")
    del batch[HEADER_BYTES:]
    batch += records
    pack_into(">i", batch, 8, len(batch) - 12)
    pack_into(">h", batch, ATTRIBUTES_POSITION, codec)
    pack_into(">i", batch, 23, last_delta)
    pack_into(">i", batch, 57, count)
    return with_checksum(batch)


def with_checksum(batch: bytes | bytearray) -> bytes:
    """The same batch with the checksum that its bytes have."""
    batch = bytearray(batch)
    pack_into(">I", batch, CHECKSUM_POSITION, crc32c(batch[ATTRIBUTES_POSITION:]))
    return bytes(batch)
