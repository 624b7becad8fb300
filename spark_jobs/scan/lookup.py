"""Find the position in a segment at which an offset or a timestamp begins.

The indexes give a candidate position.  The batch there is compared with the index entry: its
checksum, its offset and its maximum timestamp.  If they disagree, or if there is no index, the
segment is read from its start, which takes longer and gives the same result.

Owner: the process that plans the scan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.record_set import AnyBatch, batch_at
from odradek.spark_jobs.scan.catalog import PartitionLog, Segment
from odradek.spark_jobs.scan.file_access import File, FileSystem, read_file
from odradek.spark_jobs.scan.indexes import OffsetEntries, parse_offset_index, parse_time_index
from odradek.spark_jobs.scan.resync import SearchRange, valid_batch_at
from odradek.spark_jobs.scan.segment_reader import (
    OFFSET_MAX,
    DamagedRange,
    LegacyBatchGroup,
    SegmentRange,
    SegmentReader,
)
from odradek.storage.paths import LogFileType

#: A lookup reads little: index entries are about 4 KiB apart.
LOOKUP_BYTES = 64 * 1024


class BatchPosition(NamedTuple):
    """A batch starts at the position; it and all later batches start at the offset or after it."""

    position: int
    offset: int


class SegmentLookup:
    """Finds positions in one segment.  It reads each index file once."""

    def __init__(self, file_system: FileSystem, segment: Segment, file: File) -> None:
        self._file_system = file_system
        self._segment = segment
        self._file = file
        self._offset_entries: OffsetEntries | None = None
        self.start = BatchPosition(0, segment.base_offset)
        # Batches appended to the active segment since it was listed are left to the next plan: they
        # may belong to transactions that did not exist when the transactions were loaded.
        is_growing = segment.next_base_offset is None
        self.end = BatchPosition(segment.size_bytes if is_growing else file.size_bytes, OFFSET_MAX)

    @property
    def offset_entries(self) -> OffsetEntries:
        if self._offset_entries is None:
            content = read_file(
                self._file_system, self._segment.sibling_path(LogFileType.OFFSET_INDEX)
            )
            self._offset_entries = parse_offset_index(
                content, base_offset=self._segment.base_offset
            )
        return self._offset_entries

    def find_at_or_before(self, offset: int) -> BatchPosition:
        """Return a position; every record at ``offset`` or above lies at or after it."""
        offsets, positions = self.offset_entries
        slot = int(np.searchsorted(offsets, offset, side="right")) - 1
        candidate = (
            self.verify_batch_at(int(positions[slot]), int(offsets[slot])) if slot >= 0 else None
        )
        return candidate if candidate is not None and candidate.offset <= offset else self.start

    def find_after(self, offset: int) -> BatchPosition | None:
        """Return a position after every record below ``offset``, or None if the index has none."""
        offsets, positions = self.offset_entries
        # The previous entry may point to several batches, the last of which has its offset.
        slot = int(np.searchsorted(offsets, offset, side="left")) + 1
        if slot >= len(offsets):
            return None
        candidate = self.verify_batch_at(int(positions[slot]), int(offsets[slot]))
        return candidate if candidate is not None and candidate.offset >= offset else None

    def verify_batch_at(self, position: int, offset: int) -> BatchPosition | None:
        """Return None unless a valid batch at ``position`` starts at ``offset`` or before."""
        search = SearchRange(position, self._file.size_bytes, self._segment.base_offset, offset)
        batch = valid_batch_at(self._file, search)
        return None if batch is None else BatchPosition(position, batch.base_offset)

    def find_offset_by_timestamp(self, timestamp: int, *, starting_offset: int) -> int | None:
        """Return the first offset >= ``starting_offset`` with ``timestamp`` or a later one."""
        content = read_file(self._file_system, self._segment.sibling_path(LogFileType.TIME_INDEX))
        timestamps, offsets = parse_time_index(content, base_offset=self._segment.base_offset)
        slot = int(np.searchsorted(timestamps, timestamp, side="left")) - 1
        if slot >= 0:
            entry = _TimestampOffset(int(timestamps[slot]), int(offsets[slot]))
            start = self.find_at_or_before(entry.offset)
            if self._matches_entry(start, entry):
                return self._scan_for_timestamp(start, timestamp, starting_offset)
        return self._scan_for_timestamp(self.start, timestamp, starting_offset)

    def _matches_entry(self, start: BatchPosition, entry: _TimestampOffset) -> bool:
        for batch in self._read_batches(start):
            if batch.last_offset >= entry.offset:
                return batch.max_timestamp == entry.timestamp
        return False

    def _scan_for_timestamp(
        self, start: BatchPosition, timestamp: int, starting_offset: int
    ) -> int | None:
        for batch in self._read_batches(start):
            if batch.max_timestamp >= timestamp and batch.last_offset >= starting_offset:
                try:
                    for record in batch:
                        if record.timestamp >= timestamp and record.offset >= starting_offset:
                            return record.offset
                except CorruptMessage:  # the reader of the split reports it
                    continue
        return None

    def _read_batches(self, start: BatchPosition) -> Iterator[AnyBatch]:
        """Yield the valid batches from ``start`` on, one by one."""
        segment = self._segment
        segment_range = SegmentRange(
            start.position, self._file.size_bytes, start.offset, offset_max=segment.offset_max
        )
        for item in SegmentReader(self._file, segment_range, group_bytes=LOOKUP_BYTES):
            if isinstance(item, DamagedRange):
                continue
            if isinstance(item, LegacyBatchGroup):
                yield from item.batches
                continue
            buffer = item.buffer.data
            yield from (batch_at(buffer, position) for position in item.starts.tolist())


@dataclass(frozen=True, slots=True)
class _TimestampOffset:
    """An entry of a time index."""

    timestamp: int
    offset: int


def find_offset_by_timestamp(log: PartitionLog, timestamp: int) -> int | None:
    """Return the offset of the first record with the timestamp or a later one, if any."""
    for segment in log.segments:
        with log.file_system.open(segment.path) as file:
            lookup = SegmentLookup(log.file_system, segment, file)
            offset = lookup.find_offset_by_timestamp(
                timestamp, starting_offset=log.log_start_offset
            )
        if offset is not None:
            return offset
    return None


def find_log_end_offset(log: PartitionLog) -> int:
    """Return the offset after the last valid batch, regardless of the high watermark."""
    if not log.segments:
        return log.log_start_offset
    last = log.segments[-1]
    with log.file_system.open(last.path) as file:
        lookup = SegmentLookup(log.file_system, last, file)
        start = lookup.find_at_or_before(OFFSET_MAX)
        if start.position > lookup.end.position:  # the index has been written to since
            start = lookup.start
        segment_range = SegmentRange(start.position, lookup.end.position, start.offset)
        reader = SegmentReader(file, segment_range, group_bytes=LOOKUP_BYTES)
        for _ in reader:
            continue
    return max(reader.next_offset, log.log_start_offset)
