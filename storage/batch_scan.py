"""Walking over the batches of a .log file: their headers only, or the batches whole.

    headers   offsets and places; a few bytes are read for each batch, however large it is
    batches   views of whole batches in large reads, for whoever wants to check or decode them

A walk ends at the first place where no whole batch can be.  ``headers`` and ``batches`` differ on
purpose: finding an offset must not cost the reading of megabytes of records.

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
#: Magic 0 with null key and value: 12 bytes of overhead and 14 more.  Shorter is no batch.
SMALLEST_BATCH_BYTES = 26

#: A lookup starts at an index entry, and entries are about 4 KiB apart.
HEADERS_READ_BYTES = 4096
#: As much as stays in a processor's cache until its checksums have been computed.
BATCHES_READ_BYTES = 256 * 1024


class BatchLocation(NamedTuple):
    """Where a batch is, and which offsets it covers.  Magic 0 and 1 tell only the last one."""

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
    """As it would be found there: what a wrapper of old begins with is in what it wraps."""
    base_offset = batch.base_offset if isinstance(batch, RecordBatch) else batch.last_offset
    return BatchLocation(position, batch.size_bytes, base_offset, batch.last_offset)


def scan_headers(descriptor: int, *, start: int, end: int) -> Iterator[BatchLocation]:
    """The batches from ``start`` to ``end``, both positions; ends at what cannot be a batch."""
    position, chunk, chunk_position = start, b"", start
    while position + SMALLEST_BATCH_BYTES <= end:
        at = position - chunk_position
        if at + HEADER_PREFIX_BYTES > len(chunk):
            chunk = files.read_at(descriptor, min(HEADERS_READ_BYTES, end - position), position)
            chunk_position, at = position, 0
            if len(chunk) < SMALLEST_BATCH_BYTES:
                return
            # Magic 0 can be a byte shorter than the fields that magic 2 has by then.
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
    """The batch at ``position``, if one can be there: one small read, as every fetch does it."""
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
    """Position and view of each whole batch; CorruptMessage where none can be, or one is cut."""
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
            # Those that follow are likely to be as large.
            read_bytes = _size_of_large_batch(chunk, position, end)
        position += at


def _try_read_batch(chunk: memoryview, chunk_position: int) -> AnyBatch | None:
    """None if it is not all there."""
    try:
        # Tried first, as it finds out by itself: whoever recovers a log goes over millions.
        return batch_at(chunk, chunk_position)
    except CorruptMessage:
        if whole_batch_bytes(chunk, chunk_position):
            raise
        return None


def check_ascending(
    batches: Iterable[tuple[int, AnyBatch]], *, first_offset: int, last_offset_max: int
) -> Iterator[tuple[int, AnyBatch]]:
    """The same batches; CorruptMessage at one whose offset goes back, or is not in the range."""
    for position, batch in batches:
        last_offset = batch.last_offset
        if not first_offset <= last_offset <= last_offset_max:
            raise CorruptMessage(f"{batch} at {position}, where {first_offset} is next")
        first_offset = last_offset + 1
        yield position, batch


def _size_of_large_batch(chunk: memoryview, position: int, end: int) -> int:
    """The size of a batch that does not fit a usual read; CorruptMessage if it does not fit."""
    if len(chunk) < LOG_OVERHEAD_BYTES:
        raise CorruptMessage(f"{len(chunk)} bytes at {position} are too few for a batch")
    length: int = _LENGTH.unpack_from(chunk)[0]
    size_bytes = length + LOG_OVERHEAD_BYTES
    if size_bytes > end - position or size_bytes <= len(chunk):
        raise CorruptMessage(f"a batch of {size_bytes} bytes at {position} ends after {end}")
    return size_bytes
