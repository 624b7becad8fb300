"""Read a segment: groups of batches with valid checksums, and damaged ranges.

A group has about 8 MB, in memory that is reused.  It is read in chunks, so that each checksum is
computed while the bytes are still in the processor's cache.  Before the checksum of a batch has
been verified, only the fields that it does not cover (offset, length, magic) are used.  The offset
must not go back, nor reach into the next segment.

A position without a valid batch may be the end of the log.  While a broker writes, it leaves a
truncated batch, or zeros up to the end of the file.  These end the reading if

    nothing follows, neither in the segment nor after it, and
    the high watermark, if it is known, has been reached: the log is complete below it.

Anything else is damage, and reading continues at the next valid batch.

Owner: the caller that iterates; a group's buffer is valid until the next item is requested.
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
from odradek.protocol.records.crc32c import checksum_function
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.spark_jobs.scan.batch_group import BatchGroup, build_batch_group
from odradek.spark_jobs.scan.damage import ScanFailed
from odradek.spark_jobs.scan.file_access import File
from odradek.spark_jobs.scan.resync import (
    HEADER_PREFIX,
    SearchRange,
    chunked_crc32c,
    find_next_valid_batch,
    is_all_zeros,
)
from odradek.spark_jobs.scan.varints import PADDING_BYTES, ByteArray
from odradek.storage.batch_scan import SMALLEST_BATCH_BYTES

GROUP_BYTES = 8 * 1024 * 1024
#: A larger batch is checksummed in chunks first: a damaged length must not allocate that memory.
LARGE_BATCH_BYTES = 64 * 1024 * 1024
OFFSET_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """The part of a segment to read, and what is known about it."""

    start_position: int  # a valid batch begins here
    end_position: int
    first_offset: int  # no batch in the range begins before this offset
    stop_offset: int = OFFSET_MAX  # batches from this offset on are not read
    offset_max: int = OFFSET_MAX  # of the segment: the next segment begins after it
    is_last: bool = True  # nothing follows, except what is being appended
    high_watermark: int | None = None


@dataclass(frozen=True, slots=True)
class LegacyBatchGroup:
    """Messages of magic 0 and 1 with valid checksums."""

    position: int  # the file position of the buffer's first byte
    batches: list[LegacyBatch]


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """A range of the file that cannot be read."""

    position: int
    end_position: int
    first_offset: int
    reason: str


SegmentItem = BatchGroup | LegacyBatchGroup | DamagedRange


class _StopReason(Enum):
    """Why a run of valid batches of one format ended; damage is described by a text instead."""

    RANGE_END = auto()  # the rest is not to be read
    OTHER_FORMAT = auto()
    TRUNCATED = auto()  # the next batch is incomplete


class SegmentReader:
    """One pass over a range of a segment file."""

    def __init__(
        self, file: File, segment_range: SegmentRange, *, group_bytes: int = GROUP_BYTES
    ) -> None:
        self._file = file
        self._segment_range = segment_range
        self._end = min(segment_range.end_position, file.size_bytes)
        self._group_bytes = self._next_group_bytes = group_bytes
        self._group_limit_bytes = 0  # the end of the group in the buffer
        self._buffer_start = 0  # the file position of the buffer's first byte
        self._buffer = np.zeros(0, dtype=np.uint8)
        self._view = memoryview(b"")
        self._filled_bytes = 0
        self._has_shrunk = False  # whether the file has become shorter since it was opened
        self.next_offset = segment_range.first_offset

    def __iter__(self) -> Iterator[SegmentItem]:
        position = self._segment_range.start_position
        while position < self._end and self.next_offset < self._segment_range.stop_offset:
            self._start_group(position)
            starts, buffer_position, stop_reason = self._collect_batches()
            if starts:
                yield build_batch_group(self._buffer, position, starts)
            if stop_reason is _StopReason.OTHER_FORMAT:
                batches, buffer_position, stop_reason = self._collect_legacy_batches(
                    buffer_position
                )
                if batches:
                    yield LegacyBatchGroup(position, batches)
            position += buffer_position
            if stop_reason is _StopReason.RANGE_END:
                return
            if isinstance(stop_reason, _StopReason) and (
                buffer_position > 0 or self._is_larger_than_buffer(position)
            ):
                continue
            damaged_range = self._find_damaged_range(position, stop_reason)
            if damaged_range is None:
                return
            yield damaged_range
            position = damaged_range.end_position

    @property
    def ends_before_high_watermark(self) -> bool:
        """After reading: whether records below the high watermark are missing."""
        segment_range = self._segment_range
        if not segment_range.is_last or segment_range.high_watermark is None:
            return False
        return self.next_offset < min(segment_range.high_watermark, segment_range.stop_offset)

    def _start_group(self, position: int) -> None:
        """Allocate room for the bytes from ``position`` on; they are read when needed."""
        self._group_limit_bytes = min(self._next_group_bytes, self._end - position)
        self._next_group_bytes = self._group_bytes
        if len(self._buffer) < self._group_limit_bytes + PADDING_BYTES:
            self._buffer = allocate_buffer(self._group_limit_bytes)
            self._view = self._buffer.data
        self._buffer_start, self._filled_bytes = position, 0
        self._has_shrunk = False

    def _has_header(self, buffer_position: int) -> bool:
        """Whether a batch can begin there.  The padding allows unpacking a header prefix."""
        self._read_up_to(min(buffer_position + HEADER_PREFIX.size, self._group_limit_bytes))
        return buffer_position + SMALLEST_BATCH_BYTES <= self._filled_bytes

    def _read_up_to(self, end: int) -> bool:
        """Fill the buffer up to ``end``.  Return False without reading if that is too far."""
        while self._filled_bytes < end <= self._group_limit_bytes and not self._has_shrunk:
            after = min(self._filled_bytes + self._file.chunk_bytes, self._group_limit_bytes)
            target = self._view[self._filled_bytes : after]
            count = self._file.read_into(target, self._buffer_start + self._filled_bytes)
            self._filled_bytes += count
            self._has_shrunk = count < len(target)
        return self._filled_bytes >= end

    def _collect_batches(self) -> tuple[list[int], int, _StopReason | str]:
        """Return the starts of valid batches of magic 2, their end, and why they end there."""
        view, checksum_of, unpack_from = self._view, checksum_function(), HEADER_PREFIX.unpack_from
        stop_offset, offset_max = self._segment_range.stop_offset, self._segment_range.offset_max
        next_offset, filled = self.next_offset, self._filled_bytes
        starts: list[int] = []
        at = 0
        stop_reason: _StopReason | str = _StopReason.TRUNCATED
        while at + HEADER_PREFIX.size <= filled or self._has_header(at):
            if next_offset >= stop_offset:
                stop_reason = _StopReason.RANGE_END
                break
            base_offset, length, magic, checksum, last_delta = unpack_from(view, at)
            end = at + length + LOG_OVERHEAD_BYTES
            if magic != MAGIC or end - at < HEADER_BYTES:
                stop_reason = _classify_header(magic, end - at)
                break
            if end > filled:
                if not self._read_up_to(end):
                    break
                filled = self._filled_bytes
            if checksum_of(view[at + ATTRIBUTES_POSITION : end], 0) != checksum:
                stop_reason = "the checksum does not match the bytes"
                break
            last_offset = base_offset + last_delta
            if not next_offset <= base_offset <= last_offset <= offset_max:
                stop_reason = (
                    f"offsets {base_offset} to {last_offset} do not fit: {next_offset} is next"
                )
                break
            starts.append(at)
            at, next_offset = end, last_offset + 1
        self.next_offset = next_offset
        return starts, at, stop_reason

    def _collect_legacy_batches(
        self, buffer_position: int
    ) -> tuple[list[LegacyBatch], int, _StopReason | str]:
        """Return the same for magic 0 and 1, with the batches instead of their starts."""
        self._read_up_to(self._group_limit_bytes)
        view, batches = self._view[: self._filled_bytes], []
        stop_reason: _StopReason | str = _StopReason.TRUNCATED
        while buffer_position + SMALLEST_BATCH_BYTES <= len(view):
            if self.next_offset >= self._segment_range.stop_offset:
                stop_reason = _StopReason.RANGE_END
                break
            _, length, magic, _, _ = HEADER_PREFIX.unpack_from(self._view, buffer_position)
            size_bytes = length + LOG_OVERHEAD_BYTES
            if magic == MAGIC or size_bytes < SMALLEST_BATCH_BYTES:
                stop_reason = _classify_header(magic, size_bytes)
                break
            if buffer_position + size_bytes > len(view):
                break
            try:
                batch = LegacyBatch(view, buffer_position)
                batch.check_crc()
            except CorruptMessage as error:
                stop_reason = str(error)
                break
            if not self.next_offset <= batch.last_offset <= self._segment_range.offset_max:
                stop_reason = f"offset {batch.last_offset} does not fit: {self.next_offset} is next"
                break
            batches.append(batch)
            buffer_position, self.next_offset = buffer_position + size_bytes, batch.next_offset
        return batches, buffer_position, stop_reason

    def _is_larger_than_buffer(self, position: int) -> bool:
        """Whether a batch exceeds the buffer; then the next group has room for all of it."""
        remaining = self._end - position
        self._read_up_to(self._group_limit_bytes)
        if (
            self._has_shrunk
            or self._filled_bytes < SMALLEST_BATCH_BYTES
            or self._filled_bytes == remaining
        ):
            return False
        _, length, magic, checksum, _ = HEADER_PREFIX.unpack_from(self._view)
        size_bytes: int = length + LOG_OVERHEAD_BYTES
        if size_bytes > remaining:
            return False
        self._next_group_bytes = size_bytes
        if size_bytes <= LARGE_BATCH_BYTES:
            return True
        start, end = position + ATTRIBUTES_POSITION, position + size_bytes
        is_checksum_valid: bool = checksum == chunked_crc32c(self._file, start, end)
        return magic == MAGIC and is_checksum_valid

    def _find_damaged_range(
        self, position: int, stop_reason: _StopReason | str
    ) -> DamagedRange | None:
        """Return None if this is the end of a log that is being written."""
        segment_range = self._segment_range
        next_valid_position = find_next_valid_batch(
            self._file,
            SearchRange(position, self._end, self.next_offset, segment_range.offset_max),
        )
        is_complete = (
            segment_range.high_watermark is None or self.next_offset >= segment_range.high_watermark
        )
        is_zero = next_valid_position is None and is_all_zeros(self._file, position, self._end)
        is_end = next_valid_position is None and (stop_reason is _StopReason.TRUNCATED or is_zero)
        if is_end and segment_range.is_last and is_complete:
            return None
        if isinstance(stop_reason, _StopReason):
            stop_reason = "a batch is truncated"
        reason = "zeros where batches should be" if is_zero else stop_reason
        return DamagedRange(position, next_valid_position or self._end, self.next_offset, reason)


def check_crc32c_available() -> None:
    """Raise ScanFailed if CRC-32C is not available: no record is read unverified."""
    try:
        checksum_function()
    except ImportError as error:
        raise ScanFailed(
            f"{sys.executable} cannot compute CRC-32C: install the package crc32c or crcmod"
        ) from error


def allocate_buffer(size_bytes: int) -> ByteArray:
    """Allocate a buffer with padding, and as much again after it, only for ``binary_array``.

    The second part is never written, not even cleared, so it takes no physical memory.
    """
    reserve_bytes = min(size_bytes, LARGE_BATCH_BYTES)
    return np.empty(size_bytes + PADDING_BYTES + reserve_bytes, dtype=np.uint8)


def _classify_header(magic: int, size_bytes: int) -> _StopReason | str:
    is_known = 0 <= magic <= MAGIC
    if is_known and size_bytes >= (HEADER_BYTES if magic == MAGIC else SMALLEST_BATCH_BYTES):
        return _StopReason.OTHER_FORMAT
    return f"not a batch: magic {magic}, {size_bytes} bytes"
