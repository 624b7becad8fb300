"""Find the next valid batch after damage.

The first candidate is the end of the damaged batch according to its length.  If the length is
damaged too, every position is tried: a batch is there if magic, length and offset are plausible
and the checksum is valid.

A value may contain a whole batch, for example of a dumped log.  Therefore offsets must be in range,
and only bytes after damage are searched.

Owner: none; reads a file, any thread.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

import numpy as np

from odradek.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
)
from odradek.protocol.records.crc32c import crc32c
from odradek.protocol.records.legacy_batch import CHECKSUM_INPUT_POSITION, CHECKSUM_POSITION
from odradek.spark_jobs.scan.file_access import File
from odradek.storage.batch_scan import SMALLEST_BATCH_BYTES

#: Offset, length, magic, checksum and last offset delta of magic 2.
HEADER_PREFIX = Struct(">qi4xbI2xi")
CHUNK_BYTES = 1024 * 1024
_LEGACY_CHECKSUM = Struct(">I")


class SearchRange(NamedTuple):
    """A range of positions, and the range of offsets that a batch in it may have."""

    position: int
    end_position: int
    first_offset: int
    last_offset: int


class ValidBatch(NamedTuple):
    base_offset: int  # for magic 0 and 1 the last offset, the only one they store
    size_bytes: int


def find_next_valid_batch(file: File, search_range: SearchRange) -> int | None:
    """Return the position of the next valid batch after the start of the range, or None."""
    expected_end = search_range.position + _batch_size_at(file, search_range.position)
    if search_range.position < expected_end < search_range.end_position and valid_batch_at(
        file, search_range._replace(position=expected_end)
    ):
        return expected_end
    for position in _candidate_positions(
        file, search_range._replace(position=search_range.position + 1)
    ):
        if valid_batch_at(file, search_range._replace(position=position)):
            return position
    return None


def valid_batch_at(file: File, search_range: SearchRange) -> ValidBatch | None:
    """Return the batch at the start of the range if its checksum is valid and its offset fits."""
    position, end, first_offset, last_offset = search_range
    head = _read(file, position, min(position + HEADER_PREFIX.size, end)).ljust(
        HEADER_PREFIX.size, b"\0"
    )
    base_offset, length, magic, checksum, last_delta = HEADER_PREFIX.unpack(head)
    size_bytes: int = length + LOG_OVERHEAD_BYTES
    smallest = HEADER_BYTES if magic == MAGIC else SMALLEST_BATCH_BYTES
    if not (0 <= magic <= MAGIC and smallest <= size_bytes <= end - position):
        return None
    if not first_offset <= base_offset <= last_offset:
        return None
    if magic == MAGIC:
        computed = chunked_crc32c(file, position + ATTRIBUTES_POSITION, position + size_bytes)
        is_valid = computed == checksum and last_delta >= 0
    else:
        content = _read(file, position, position + size_bytes)
        (checksum,) = _LEGACY_CHECKSUM.unpack_from(content, CHECKSUM_POSITION)
        is_valid = zlib.crc32(content[CHECKSUM_INPUT_POSITION:]) == checksum
    return ValidBatch(base_offset, size_bytes) if is_valid else None


def chunked_crc32c(file: File, start: int, end: int) -> int:
    """Compute the CRC-32C of a range in chunks, as a damaged length may make it very long."""
    checksum = 0
    for position in range(start, end, CHUNK_BYTES):
        checksum = crc32c(_read(file, position, min(position + CHUNK_BYTES, end)), checksum)
    return checksum


def is_all_zeros(file: File, start: int, end: int) -> bool:
    return all(
        not any(_read(file, position, min(position + CHUNK_BYTES, end)))
        for position in range(start, end, CHUNK_BYTES)
    )


def _batch_size_at(file: File, position: int) -> int:
    head = _read(file, position, position + HEADER_PREFIX.size).ljust(HEADER_PREFIX.size, b"\0")
    length: int = HEADER_PREFIX.unpack(head)[1]
    return length + LOG_OVERHEAD_BYTES


def _candidate_positions(file: File, search_range: SearchRange) -> Iterator[int]:
    """Yield positions where a batch may begin, by the fields that its checksum does not cover."""
    position, end, first_offset, last_offset = search_range
    while position + SMALLEST_BATCH_BYTES <= end:
        content = np.frombuffer(
            _read(file, position, min(position + CHUNK_BYTES + HEADER_PREFIX.size, end)),
            dtype=np.uint8,
        )
        if len(content) <= MAGIC_POSITION:
            return
        indexes = np.flatnonzero(content[MAGIC_POSITION : MAGIC_POSITION + CHUNK_BYTES] <= MAGIC)
        lengths = np.ndarray((len(content) - 11,), ">i4", content, 8, (1,))[indexes]
        offsets = np.ndarray((len(content) - 7,), ">i8", content, 0, (1,))[indexes]
        sizes = lengths.astype(np.int64) + LOG_OVERHEAD_BYTES
        fits = (sizes >= SMALLEST_BATCH_BYTES) & (sizes <= end - position - indexes)
        fits &= (offsets >= first_offset) & (offsets <= last_offset)
        yield from (position + indexes[fits]).tolist()
        position += CHUNK_BYTES


def _read(file: File, start: int, end: int) -> bytes:
    content = bytearray(max(0, end - start))
    return bytes(content[: file.read_into(memoryview(content), start)])


def batch_positions(file: File, position: int) -> Iterator[int]:
    """Yield positions of batches, each from the length of the previous; stop where none fits."""
    while position + SMALLEST_BATCH_BYTES <= file.size_bytes:
        yield position
        size_bytes = _batch_size_at(file, position)
        if size_bytes < SMALLEST_BATCH_BYTES:
            return
        position += size_bytes
