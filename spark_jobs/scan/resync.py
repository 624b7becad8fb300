"""Where, after damage, does a sound batch begin again?

First where the damaged one says that it ends.  If its length is damaged too, every position is
tried: where magic, length and offset could be a batch's, and its checksum is right, is one.

A value may hold a whole batch, of a dumped log perhaps.  So offsets must fit in, and only bytes
behind damage are searched.

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
from odradek.protocol.records.legacy import CHECKED_FROM_POSITION, CHECKSUM_POSITION
from odradek.spark_jobs.scan.file_access import File
from odradek.storage.batch_scan import SMALLEST_BATCH_BYTES

#: Offset, length, magic, checksum and last offset delta of magic 2.
HEAD = Struct(">qi4xbI2xi")
PIECE_BYTES = 1024 * 1024
_OLD_CHECKSUM = Struct(">I")


class Search(NamedTuple):
    """Positions from and to, and the offsets that a batch between them may have."""

    position: int
    end: int
    first_offset: int
    last_offset: int


class SoundBatch(NamedTuple):
    base_offset: int  # magic 0 and 1 tell the last one only
    size_bytes: int


def next_sound_batch(file: File, search: Search) -> int | None:
    """Its position, after that of the search; None if there is none."""
    announced = search.position + _size_at(file, search.position)
    if search.position < announced < search.end and sound_batch_at(
        file, search._replace(position=announced)
    ):
        return announced
    for position in _candidates(file, search._replace(position=search.position + 1)):
        if sound_batch_at(file, search._replace(position=position)):
            return position
    return None


def sound_batch_at(file: File, search: Search) -> SoundBatch | None:
    """What is at the search's very position, if its checksum is right and its offset fits."""
    position, end, first_offset, last_offset = search
    head = _read(file, position, min(position + HEAD.size, end)).ljust(HEAD.size, b"\0")
    base_offset, length, magic, checksum, last_delta = HEAD.unpack(head)
    size_bytes: int = length + LOG_OVERHEAD_BYTES
    smallest = HEADER_BYTES if magic == MAGIC else SMALLEST_BATCH_BYTES
    if not (0 <= magic <= MAGIC and smallest <= size_bytes <= end - position):
        return None
    if not first_offset <= base_offset <= last_offset:
        return None
    if magic == MAGIC:
        covered = checksum_in_pieces(file, position + ATTRIBUTES_POSITION, position + size_bytes)
        is_sound = covered == checksum and last_delta >= 0
    else:
        content = _read(file, position, position + size_bytes)
        (checksum,) = _OLD_CHECKSUM.unpack_from(content, CHECKSUM_POSITION)
        is_sound = zlib.crc32(content[CHECKED_FROM_POSITION:]) == checksum
    return SoundBatch(base_offset, size_bytes) if is_sound else None


def checksum_in_pieces(file: File, start: int, end: int) -> int:
    """CRC-32C of a range, with little memory, whatever a damaged length says."""
    checksum = 0
    for position in range(start, end, PIECE_BYTES):
        checksum = crc32c(_read(file, position, min(position + PIECE_BYTES, end)), checksum)
    return checksum


def is_zero_from(file: File, start: int, end: int) -> bool:
    return all(
        not any(_read(file, position, min(position + PIECE_BYTES, end)))
        for position in range(start, end, PIECE_BYTES)
    )


def _size_at(file: File, position: int) -> int:
    head = _read(file, position, position + HEAD.size).ljust(HEAD.size, b"\0")
    length: int = HEAD.unpack(head)[1]
    return length + LOG_OVERHEAD_BYTES


def _candidates(file: File, search: Search) -> Iterator[int]:
    """Positions at which a batch might begin, by what its checksum does not cover."""
    position, end, first_offset, last_offset = search
    while position + SMALLEST_BATCH_BYTES <= end:
        content = np.frombuffer(
            _read(file, position, min(position + PIECE_BYTES + HEAD.size, end)), dtype=np.uint8
        )
        if len(content) <= MAGIC_POSITION:
            return
        at = np.flatnonzero(content[MAGIC_POSITION : MAGIC_POSITION + PIECE_BYTES] <= MAGIC)
        lengths = np.ndarray((len(content) - 11,), ">i4", content, 8, (1,))[at]
        offsets = np.ndarray((len(content) - 7,), ">i8", content, 0, (1,))[at]
        sizes = lengths.astype(np.int64) + LOG_OVERHEAD_BYTES
        fits = (sizes >= SMALLEST_BATCH_BYTES) & (sizes <= end - position - at)
        fits &= (offsets >= first_offset) & (offsets <= last_offset)
        yield from (position + at[fits]).tolist()
        position += PIECE_BYTES


def _read(file: File, start: int, end: int) -> bytes:
    content = bytearray(max(0, end - start))
    return bytes(content[: file.read_into(memoryview(content), start)])


def batch_chain(file: File, position: int) -> Iterator[int]:
    """Positions of batches, each from the length of the one before; ends where none can be."""
    while position + SMALLEST_BATCH_BYTES <= file.size_bytes:
        yield position
        size_bytes = _size_at(file, position)
        if size_bytes < SMALLEST_BATCH_BYTES:
            return
        position += size_bytes
