"""Iterate over the batches of a .log file.

    scan_headers   yields offsets and positions; reads a few bytes per batch, even of a large one
    scan_batches   yields views of whole batches from large reads, to check or decode them

A scan ends at the first position that holds no whole batch.  The two functions differ on purpose:
a search for an offset must not read megabytes of records.

Owner: none; reads a file, any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import (
    LOG_OVERHEAD_BYTES,
    MAGIC,
    RecordBatch,
    whole_batch_bytes,
)
from odradek.protocol.records.record_set import AnyBatch, batch_at
from odradek.storage import files

_HEADER_PREFIX = Struct(">qiib6xi")
HEADER_PREFIX_BYTES = _HEADER_PREFIX.size
_LENGTH = Struct(">8xi")
#: Magic 0 with null key and value: 12 bytes of overhead and 14 more.  No batch is smaller.
SMALLEST_BATCH_BYTES = 26

#: A lookup starts at an index entry, and entries are about 4 KiB apart.
HEADERS_READ_BYTES = 4096
#: Small enough to stay in a processor cache until the checksums have been computed.
BATCHES_READ_BYTES = 256 * 1024


class BatchLocation(NamedTuple):
    """Position and offsets of a batch.  With magic 0 and 1 only the last offset is known."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int

    @property
    def end_position(self) -> int:
        return self.position + self.size_bytes

    def contains(self, offset: int) -> bool:
        return self.base_offset <= offset <= self.last_offset


def location_of(batch: AnyBatch, position: int) -> BatchLocation:
    """Return the location that a scan would return.

    The base offset of an old compressed wrapper is inside its value, so the last offset is used.
    """
    base_offset = batch.base_offset if isinstance(batch, RecordBatch) else batch.last_offset
    return BatchLocation(position, batch.size_bytes, base_offset, batch.last_offset)


def scan_headers(descriptor: int, *, start: int, end: int) -> Iterator[BatchLocation]:
    """Yield the batches between two positions; stop at bytes that cannot be a batch."""
    position, chunk, chunk_position = start, b"", start
    while position + SMALLEST_BATCH_BYTES <= end:
        at = position - chunk_position
        if at + HEADER_PREFIX_BYTES > len(chunk):
            chunk = files.read_at(descriptor, min(HEADERS_READ_BYTES, end - position), position)
            chunk_position, at = position, 0
            if len(chunk) < SMALLEST_BATCH_BYTES:
                return
            # A batch of magic 0 can be one byte shorter than the header prefix of magic 2.
            chunk = chunk.ljust(HEADER_PREFIX_BYTES, b"\0")
        base_offset, length, _, magic, delta = _HEADER_PREFIX.unpack_from(chunk, at)
        size_bytes = length + LOG_OVERHEAD_BYTES
        if size_bytes < SMALLEST_BATCH_BYTES or magic > MAGIC or magic < 0:
            return
        if position + size_bytes > end:
            return
        last_offset = base_offset + delta if magic == MAGIC else base_offset
        yield BatchLocation(position, size_bytes, base_offset, last_offset)
        position += size_bytes


def read_location(descriptor: int, position: int, end: int) -> BatchLocation | None:
    """Return the batch at ``position``, or None.  Costs one small read; every fetch uses it."""
    head = files.system.pread(descriptor, HEADER_PREFIX_BYTES, position)
    if len(head) < HEADER_PREFIX_BYTES:
        return next(scan_headers(descriptor, start=position, end=end), None)
    base_offset, length, _, magic, delta = _HEADER_PREFIX.unpack(head)
    size_bytes = length + LOG_OVERHEAD_BYTES
    if size_bytes < SMALLEST_BATCH_BYTES or position + size_bytes > end or not 0 <= magic <= MAGIC:
        return None
    last_offset = base_offset + delta if magic == MAGIC else base_offset
    return BatchLocation(position, size_bytes, base_offset, last_offset)


def scan_batches(
    descriptor: int, *, start: int, end: int, read_bytes: int = BATCHES_READ_BYTES
) -> Iterator[tuple[int, AnyBatch]]:
    """Yield position and view of each whole batch; raise CorruptMessage at any other bytes."""
    position = start
    while position < end:
        chunk_bytes = min(read_bytes, end - position)
        chunk = memoryview(files.read_at(descriptor, chunk_bytes, position))
        at = 0
        while batch := _try_read_batch(chunk, at):
            yield position + at, batch
            at += batch.size_bytes
        if at == 0:
            if len(chunk) < chunk_bytes:
                raise CorruptMessage(f"the file ends at {position + len(chunk)}, before {end}")
            # The batches that follow are likely to be as large.
            read_bytes = _size_of_large_batch(chunk, position, end)
        position += at


def _try_read_batch(chunk: memoryview, chunk_position: int) -> AnyBatch | None:
    """Return None if the batch is incomplete."""
    try:
        # Parse before checking the size: recovery parses millions of batches, nearly all whole.
        return batch_at(chunk, chunk_position)
    except CorruptMessage:
        if whole_batch_bytes(chunk, chunk_position):
            raise
        return None


def check_ascending(
    batches: Iterable[tuple[int, AnyBatch]], *, first_offset: int, last_offset_max: int
) -> Iterator[tuple[int, AnyBatch]]:
    """Yield the same batches; raise CorruptMessage if an offset goes back or is out of range."""
    for position, batch in batches:
        last_offset = batch.last_offset
        if not first_offset <= last_offset <= last_offset_max:
            raise CorruptMessage(f"{batch} at {position}, where {first_offset} is next")
        first_offset = last_offset + 1
        yield position, batch


def _size_of_large_batch(chunk: memoryview, position: int, end: int) -> int:
    """Return the size of a batch larger than one read; raise CorruptMessage if it is invalid."""
    if len(chunk) < LOG_OVERHEAD_BYTES:
        raise CorruptMessage(f"{len(chunk)} bytes at {position} are too few for a batch")
    length: int = _LENGTH.unpack_from(chunk)[0]
    size_bytes = length + LOG_OVERHEAD_BYTES
    if size_bytes > end - position or size_bytes <= len(chunk):
        raise CorruptMessage(f"a batch of {size_bytes} bytes at {position} ends after {end}")
    return size_bytes
