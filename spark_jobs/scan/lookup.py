"""Where in a segment does an offset, or a time, begin?

The indexes lead to a place, and the batch there is compared with what they say: its checksum, its
offset, its largest timestamp.  Where it does not agree, or there is no index, the segment is walked
from its beginning, which takes longer and leads to the same answer.

Owner: whoever plans.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.record_set import AnyBatch, batch_at
from odradek.spark_jobs.scan.catalog import PartitionLog, Segment
from odradek.spark_jobs.scan.file_access import File, FileSystem, read_whole
from odradek.spark_jobs.scan.indexes import OffsetEntries, offset_entries, time_entries
from odradek.spark_jobs.scan.resync import Search, sound_batch_at
from odradek.spark_jobs.scan.walk import OFFSET_MAX, Flaw, OldMessages, Stretch, Walk
from odradek.storage.paths import Content

#: A lookup reads little: index entries are about 4 KiB apart.
LOOKUP_BYTES = 64 * 1024


class Place(NamedTuple):
    """A batch begins at the position, and none from there on begins before the offset."""

    position: int
    offset: int


class SegmentLookup:
    """Finds places in one segment, whose files are read once."""

    def __init__(self, system: FileSystem, segment: Segment, file: File) -> None:
        self._system = system
        self._segment = segment
        self._file = file
        self._offsets: OffsetEntries | None = None
        self.start = Place(0, segment.base_offset)
        # What the last one has got since it was listed is left to the next who looks: it may be of
        # transactions that were not there when these were looked for.
        is_growing = segment.next_base_offset is None
        self.end = Place(segment.size_bytes if is_growing else file.size_bytes, OFFSET_MAX)

    @property
    def entries(self) -> OffsetEntries:
        if self._offsets is None:
            content = read_whole(self._system, self._segment.beside(Content.OFFSET_INDEX))
            self._offsets = offset_entries(content, base_offset=self._segment.base_offset)
        return self._offsets

    def at_or_before(self, offset: int) -> Place:
        """A place from which on every record from ``offset`` on lies."""
        offsets, positions = self.entries
        slot = int(np.searchsorted(offsets, offset, side="right")) - 1
        place = self.verified(int(positions[slot]), int(offsets[slot])) if slot >= 0 else None
        return place if place is not None and place.offset <= offset else self.start

    def after(self, offset: int) -> Place | None:
        """A place behind every record before ``offset``; None if the index knows none."""
        offsets, positions = self.entries
        # The entry before it may lead to several batches, of which the last has its offset.
        slot = int(np.searchsorted(offsets, offset, side="left")) + 1
        if slot >= len(offsets):
            return None
        place = self.verified(int(positions[slot]), int(offsets[slot]))
        return place if place is not None and place.offset >= offset else None

    def verified(self, position: int, offset: int) -> Place | None:
        """None unless there is a sound batch that begins at ``offset`` or before."""
        search = Search(position, self._file.size_bytes, self._segment.base_offset, offset)
        found = sound_batch_at(self._file, search)
        return None if found is None else Place(position, found.base_offset)

    def first_as_young(self, timestamp: int, *, from_offset: int) -> int | None:
        """The first offset, from that one on, of a record with the timestamp or a later one."""
        content = read_whole(self._system, self._segment.beside(Content.TIME_INDEX))
        timestamps, offsets = time_entries(content, base_offset=self._segment.base_offset)
        slot = int(np.searchsorted(timestamps, timestamp, side="left")) - 1
        if slot >= 0:
            noted = _Noted(int(timestamps[slot]), int(offsets[slot]))
            start = self.at_or_before(noted.offset)
            if self._agrees(start, noted):
                return self._first_behind(start, timestamp, from_offset)
        return self._first_behind(self.start, timestamp, from_offset)

    def _agrees(self, start: Place, noted: _Noted) -> bool:
        for batch in self._batches(start):
            if batch.last_offset >= noted.offset:
                return batch.max_timestamp == noted.timestamp
        return False

    def _first_behind(self, start: Place, timestamp: int, from_offset: int) -> int | None:
        for batch in self._batches(start):
            if batch.max_timestamp >= timestamp and batch.last_offset >= from_offset:
                try:
                    for record in batch:
                        if record.timestamp >= timestamp and record.offset >= from_offset:
                            return record.offset
                except CorruptMessage:  # whoever reads it will be told
                    continue
        return None

    def _batches(self, start: Place) -> Iterator[AnyBatch]:
        """Sound batches from there on, one by one."""
        segment = self._segment
        stretch = Stretch(
            start.position, self._file.size_bytes, start.offset, offset_max=segment.offset_max
        )
        for found in Walk(self._file, stretch, group_bytes=LOOKUP_BYTES):
            if isinstance(found, Flaw):
                continue
            if isinstance(found, OldMessages):
                yield from found.messages
                continue
            buffer = found.buffer.data
            yield from (batch_at(buffer, at) for at in found.starts.tolist())


@dataclass(frozen=True, slots=True)
class _Noted:
    """An entry of a time index."""

    timestamp: int
    offset: int


def first_as_young(log: PartitionLog, timestamp: int) -> int | None:
    """The offset of the log's first record that has the timestamp or a later one, if any has."""
    for segment in log.segments:
        with log.system.open(segment.path) as file:
            lookup = SegmentLookup(log.system, segment, file)
            offset = lookup.first_as_young(timestamp, from_offset=log.log_start_offset)
        if offset is not None:
            return offset
    return None


def log_end_offset(log: PartitionLog) -> int:
    """Behind the last sound batch, whatever the high watermark says."""
    if not log.segments:
        return log.log_start_offset
    last = log.segments[-1]
    with log.system.open(last.path) as file:
        lookup = SegmentLookup(log.system, last, file)
        start = lookup.at_or_before(OFFSET_MAX)
        if start.position > lookup.end.position:  # the index was written to meanwhile
            start = lookup.start
        stretch = Stretch(start.position, lookup.end.position, start.offset)
        walk = Walk(file, stretch, group_bytes=LOOKUP_BYTES)
        for _ in walk:
            continue
    return max(walk.next_offset, log.log_start_offset)
