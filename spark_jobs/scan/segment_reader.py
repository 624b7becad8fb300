"""Walking over a segment: groups of batches whose checksums are right, and what is damaged.

Some 8 MB make a group, in memory that is used again.  They are read piece by piece, so that each
checksum is computed while the bytes are still in the processor's cache.  Of each batch only what
its checksum does not cover (offset, length, magic) is looked at before the checksum has been
compared; the offset must not go back, nor reach into the next segment.

Where no sound batch is, the end of the log may have been reached.  A batch that is cut short, and
zeros up to the end of the file, are what a broker leaves while it writes, and end the walk if

    nothing follows, neither in the segment nor behind it, and
    the high watermark, as far as it is known, has been reached: what lies before it is complete.

Anything else is damage, and the walk goes on where a sound batch begins again.

Owner: whoever iterates; a group's buffer is good until the next is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
)
from odradek.protocol.records.crc32c import chosen_checksum
from odradek.protocol.records.legacy import LegacyBatch
from odradek.spark_jobs.scan.batch_group import BatchGroup, batch_group
from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.file_access import File
from odradek.spark_jobs.scan.resync import (
    HEAD,
    Search,
    checksum_in_pieces,
    is_zero_from,
    next_sound_batch,
)
from odradek.spark_jobs.scan.varints import PADDING, Bytes
from odradek.storage.batch_scan import SMALLEST_BATCH_BYTES

GROUP_BYTES = 8 * 1024 * 1024
#: What a damaged length may make us set aside before the checksum has been computed, in pieces.
LARGE_BATCH_BYTES = 64 * 1024 * 1024
OFFSET_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Stretch:
    """Which part of a segment to walk over, and what is known of it."""

    start: int  # positions; a sound batch begins at the first
    end: int
    first_offset: int  # no batch from there on begins before this offset
    stop_offset: int = OFFSET_MAX  # batches from this offset on are not wanted
    offset_max: int = OFFSET_MAX  # of the segment: the next begins after it
    is_last: bool = True  # nothing follows but what is being written
    high_watermark: int | None = None


@dataclass(frozen=True, slots=True)
class OldMessages:
    """Messages of magic 0 and 1; their checksums are right."""

    position: int  # of the buffer's first byte in the file
    messages: list[LegacyBatch]


@dataclass(frozen=True, slots=True)
class Flaw:
    """Nothing can be read from one position of the file to the other."""

    position: int
    end_position: int
    first_offset: int
    reason: str


Found = BatchGroup | OldMessages | Flaw


class _Obstacle(Enum):
    """Why a run over sound batches of one kind has ended; else a text says what is wrong."""

    STOP = auto()  # nothing more is wanted
    OTHER_FORMAT = auto()
    CUT = auto()  # the next batch is not all there


class Walk:
    """One pass over a stretch of a file."""

    def __init__(self, file: File, stretch: Stretch, *, group_bytes: int = GROUP_BYTES) -> None:
        self._file = file
        self._stretch = stretch
        self._end = min(stretch.end, file.size_bytes)
        self._group_bytes = self._next_bytes = group_bytes
        self._wanted_bytes = 0  # in the buffer
        self._position = 0  # of the buffer's first byte in the file
        self._buffer = np.zeros(0, dtype=np.uint8)
        self._view = memoryview(b"")
        self._filled = 0
        self._has_shrunk = False  # since it was opened
        self.next_offset = stretch.first_offset

    def __iter__(self) -> Iterator[Found]:
        position = self._stretch.start
        while position < self._end and self.next_offset < self._stretch.stop_offset:
            self._fill(position)
            starts, at, obstacle = self._batches()
            if starts:
                yield batch_group(self._buffer, position, starts)
            if obstacle is _Obstacle.OTHER_FORMAT:
                messages, at, obstacle = self._messages(at)
                if messages:
                    yield OldMessages(position, messages)
            position += at
            if obstacle is _Obstacle.STOP:
                return
            if isinstance(obstacle, _Obstacle) and (at > 0 or self._is_large(position)):
                continue
            flaw = self._flaw(position, obstacle)
            if flaw is None:
                return
            yield flaw
            position = flaw.end_position

    @property
    def lacks_its_end(self) -> bool:
        """After the walk: whether what lies before the high watermark is not all there."""
        stretch = self._stretch
        if not stretch.is_last or stretch.high_watermark is None:
            return False
        return self.next_offset < min(stretch.high_watermark, stretch.stop_offset)

    def _fill(self, position: int) -> None:
        """Have room for the bytes from ``position`` on; they are read as they are needed."""
        self._wanted_bytes = min(self._next_bytes, self._end - position)
        self._next_bytes = self._group_bytes
        if len(self._buffer) < self._wanted_bytes + PADDING:
            self._buffer = buffer_for(self._wanted_bytes)
            self._view = self._buffer.data
        self._position, self._filled = position, 0
        self._has_shrunk = False

    def _has_head(self, at: int) -> bool:
        """Whether a batch can begin there; behind the smallest there are bytes to spare."""
        self._read_up_to(min(at + HEAD.size, self._wanted_bytes))
        return at + SMALLEST_BATCH_BYTES <= self._filled

    def _read_up_to(self, end: int) -> bool:
        """Have the buffer filled to ``end``; False, and nothing is read, if that is too far."""
        while self._filled < end <= self._wanted_bytes and not self._has_shrunk:
            after = min(self._filled + self._file.piece_bytes, self._wanted_bytes)
            piece = self._view[self._filled : after]
            count = self._file.read_into(piece, self._position + self._filled)
            self._filled += count
            self._has_shrunk = count < len(piece)
        return self._filled >= end

    def _batches(self) -> tuple[list[int], int, _Obstacle | str]:
        """Where sound batches of magic 2 begin in the buffer, where they end, and why there."""
        view, checksum_of, unpack_from = self._view, chosen_checksum(), HEAD.unpack_from
        stop_offset, offset_max = self._stretch.stop_offset, self._stretch.offset_max
        next_offset, filled = self.next_offset, self._filled
        starts: list[int] = []
        at = 0
        obstacle: _Obstacle | str = _Obstacle.CUT
        while at + HEAD.size <= filled or self._has_head(at):
            if next_offset >= stop_offset:
                obstacle = _Obstacle.STOP
                break
            base_offset, length, magic, checksum, last_delta = unpack_from(view, at)
            end = at + length + LOG_OVERHEAD_BYTES
            if magic != MAGIC or end - at < HEADER_BYTES:
                obstacle = _kind_of_obstacle(magic, end - at)
                break
            if end > filled:
                if not self._read_up_to(end):
                    break
                filled = self._filled
            if checksum_of(view[at + ATTRIBUTES_POSITION : end], 0) != checksum:
                obstacle = "the checksum is not that of the bytes"
                break
            last_offset = base_offset + last_delta
            if not next_offset <= base_offset <= last_offset <= offset_max:
                obstacle = f"offsets {base_offset} to {last_offset}, where {next_offset} is next"
                break
            starts.append(at)
            at, next_offset = end, last_offset + 1
        self.next_offset = next_offset
        return starts, at, obstacle

    def _messages(self, at: int) -> tuple[list[LegacyBatch], int, _Obstacle | str]:
        """The same for magic 0 and 1."""
        self._read_up_to(self._wanted_bytes)
        view, found = self._view[: self._filled], []
        obstacle: _Obstacle | str = _Obstacle.CUT
        while at + SMALLEST_BATCH_BYTES <= len(view):
            if self.next_offset >= self._stretch.stop_offset:
                obstacle = _Obstacle.STOP
                break
            _, length, magic, _, _ = HEAD.unpack_from(self._view, at)
            size_bytes = length + LOG_OVERHEAD_BYTES
            if magic == MAGIC or size_bytes < SMALLEST_BATCH_BYTES:
                obstacle = _kind_of_obstacle(magic, size_bytes)
                break
            if at + size_bytes > len(view):
                break
            try:
                message = LegacyBatch(view, at)
                message.check_crc()
            except CorruptMessage as wrong:
                obstacle = str(wrong)
                break
            if not self.next_offset <= message.last_offset <= self._stretch.offset_max:
                obstacle = f"offset {message.last_offset}, where {self.next_offset} is next"
                break
            found.append(message)
            at, self.next_offset = at + size_bytes, message.next_offset
        return found, at, obstacle

    def _is_large(self, position: int) -> bool:
        """Whether there is a batch that the buffer is too small for: the next fill has it all."""
        remaining = self._end - position
        self._read_up_to(self._wanted_bytes)
        if self._has_shrunk or self._filled < SMALLEST_BATCH_BYTES or self._filled == remaining:
            return False
        _, length, magic, checksum, _ = HEAD.unpack_from(self._view)
        size_bytes: int = length + LOG_OVERHEAD_BYTES
        if size_bytes > remaining:
            return False
        self._next_bytes = size_bytes
        if size_bytes <= LARGE_BATCH_BYTES:
            return True
        start, end = position + ATTRIBUTES_POSITION, position + size_bytes
        is_sound: bool = checksum == checksum_in_pieces(self._file, start, end)
        return magic == MAGIC and is_sound

    def _flaw(self, position: int, obstacle: _Obstacle | str) -> Flaw | None:
        """None if this is the end of a log that is being written."""
        stretch = self._stretch
        following = next_sound_batch(
            self._file,
            Search(position, self._end, self.next_offset, stretch.offset_max),
        )
        is_complete = stretch.high_watermark is None or self.next_offset >= stretch.high_watermark
        is_zero = following is None and is_zero_from(self._file, position, self._end)
        is_end = following is None and (obstacle is _Obstacle.CUT or is_zero)
        if is_end and stretch.is_last and is_complete:
            return None
        if isinstance(obstacle, _Obstacle):
            obstacle = "a batch is cut short"
        reason = "zeros where batches should be" if is_zero else obstacle
        return Flaw(position, following or self._end, self.next_offset, reason)


def check_can_check() -> None:
    """ScanFailed where nothing computes the checksums: no record is read unchecked."""
    try:
        chosen_checksum()
    except ImportError as missing:
        raise ScanFailed(
            f"{sys.executable} can compute no checksums: install the package crc32c, or crcmod"
        ) from missing


def buffer_for(size_bytes: int) -> Bytes:
    """With bytes to spare, and as much again behind it, which is there for ``arrays.slices`` alone.

    Nobody touches that, not even to clear it, so that it takes no memory.
    """
    beyond = min(size_bytes, LARGE_BATCH_BYTES)
    return np.empty(size_bytes + PADDING + beyond, dtype=np.uint8)


def _kind_of_obstacle(magic: int, size_bytes: int) -> _Obstacle | str:
    is_known = 0 <= magic <= MAGIC
    if is_known and size_bytes >= (HEADER_BYTES if magic == MAGIC else SMALLEST_BATCH_BYTES):
        return _Obstacle.OTHER_FORMAT
    return f"no batch: magic {magic}, {size_bytes} bytes"
