"""One segment of a log: a .log file and its indexes.  Kafka: LogSegment.

    00000000000000000042.log         batches, back to back; the first may begin after offset 42
                        .index       offset -> position          offset_index.py
                        .timeindex   timestamp -> offset         time_index.py
                        .txnindex    aborted transactions        transaction_index.py

An append writes the bytes, then the indexes, and then advances ``size_bytes``.  No reader reads
beyond ``size_bytes``, so a failed or torn write has no effect: the next append overwrites it, and
recovery truncates it.  No index entry points beyond the bytes: if an index cannot be written, the
append fails before ``size_bytes`` advances.

With ``preallocate`` the first append extends the .log file to its maximum size.  Sealing or closing
the segment truncates the file to ``size_bytes``.

Indexes have no checksums.  An entry is trusted only if it points to a batch; otherwise both indexes
are rebuilt.  If the entry is right and the batches still break off, the batches are corrupt and the
reader gets CorruptMessage.

Files are opened on first use: a clean log of a thousand segments opens no file.  Files are closed
again if too many are open; see open_segments.py.  ``create`` or compaction creates the files.

Invariant: in an active segment, ``size_bytes`` is the end of the last acknowledged batch.
Owner: the event loop, or the thread that recovers or compacts the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.file_region import FileRegion
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage import batch_scan, files, open_segments
from odradek.storage.batch_scan import HEADERS_READ_BYTES, BatchLocation, read_location
from odradek.storage.max_timestamp import contradicts_batch, scan_for_max_timestamp
from odradek.storage.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex, OffsetPosition
from odradek.storage.open_file import OpenFile
from odradek.storage.paths import SEGMENT_FILE_TYPES, FileStage, LogFileType, file_path
from odradek.storage.time_index import TimeIndex, TimestampOffset
from odradek.storage.transaction_index import TransactionIndex

#: Positions in the index have 32 bits, and Kafka reads them as signed.
SEGMENT_BYTES_MAX = 0x7FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentConfig:
    """The layout of segments: the topic settings that segments need."""

    index_interval_bytes: int = 4096
    index_bytes_max: int = 10 * 1024 * 1024
    preallocated_bytes: int = 0  # 0: the file grows with each append


class LogSegment:
    """An append-only file of record batches, searchable by offset and by timestamp."""

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        config: SegmentConfig,
        *,
        stage: FileStage = FileStage.IN_USE,
    ) -> None:
        """Open the segment with the files that exist; see ``create`` for a new one.

        The size is the size of the .log file, which is valid for a closed or recovered segment.
        """
        self.directory = directory
        self.base_offset = base_offset
        self.config = config
        self.stage = stage
        self._file: OpenFile | None = None
        self._open_segments: open_segments.OpenSegments | None = None
        self.size_bytes = files.size_of(self.path(LogFileType.LOG)) or 0
        index_bytes = config.index_bytes_max
        self.offset_index = OffsetIndex(
            self.path(LogFileType.OFFSET_INDEX), base_offset=base_offset, bytes_max=index_bytes
        )
        self.time_index = TimeIndex(
            self.path(LogFileType.TIME_INDEX), base_offset=base_offset, bytes_max=index_bytes
        )
        self.transaction_index = TransactionIndex(self.path(LogFileType.TRANSACTION_INDEX))
        self.offset_max = base_offset + RELATIVE_OFFSET_MAX
        self.is_index_full = self.offset_index.is_full or self.time_index.is_full
        self._bytes_since_last_index_entry = 0
        self._max_timestamp_and_offset: TimestampOffset | None = None
        self._last_appended_location: BatchLocation | None = (
            None  # the batch appended last, while it is at the end of the segment
        )
        self._are_indexes_rebuilt = False
        self.is_rebuilding_indexes = False  # stays True after an interruption: reopen the log
        #: The start of the segment's age, once it has been read: see segment_roll.py.
        self.first_batch_timestamp: int | None = None
        self.created_ms: int | None = None

    def path(self, file_type: LogFileType) -> Path:
        return file_path(self.directory, self.base_offset, file_type, self.stage)

    @property
    def index_paths(self) -> list[Path]:
        return [self.path(file_type) for file_type in SEGMENT_FILE_TYPES[:-1]]

    @property
    def file(self) -> OpenFile:
        if self._file is None:
            must_exist = self.stage is not FileStage.CLEANED
            self._file = OpenFile(self.path(LogFileType.LOG), writable=True, must_exist=must_exist)
            self._open_segments = open_segments.open_segments_of(self)
            self._open_segments.add(self)
        return self._file

    @property
    def is_open(self) -> bool:
        return self._file is not None

    @property
    def is_evictable(self) -> bool:
        """Whether it may be closed: it is in use and was only read since it was opened."""
        has_preallocated_space = (
            self.offset_index.entries.has_preallocated_space
            or self.time_index.entries.has_preallocated_space
        )
        is_changing = has_preallocated_space or self.is_rebuilding_indexes
        return (
            self._bytes_since_last_index_entry == 0
            and not is_changing
            and self.stage is FileStage.IN_USE
        )

    @property
    def max_timestamp_and_offset(self) -> TimestampOffset:
        """The largest timestamp, and the last offset of the first batch that has it."""
        if self._max_timestamp_and_offset is None:
            with open_segments.restore_open_state(self):
                self._max_timestamp_and_offset = self._read_max_timestamp_and_offset()
        return self._max_timestamp_and_offset

    # Appending

    def create(self) -> None:
        """Create the files of a new segment, which also record the next offset of the log."""
        files.system.close(files.open_for_writing(self.path(LogFileType.LOG)))
        self.offset_index.entries.trim_to_valid_size()
        self.time_index.entries.trim_to_valid_size()

    def append(self, buffers: Sequence[files.Buffer], batches: Sequence[AnyBatch]) -> None:
        """Append whole batches with assigned offsets; ``buffers`` hold their bytes."""
        position = self.size_bytes
        assert self.base_offset <= batches[-1].last_offset <= self.offset_max, (self, batches)
        self._max_timestamp_and_offset = (
            self._max_timestamp_and_offset or self.max_timestamp_and_offset
        )  # may rebuild the indexes, which truncates the preallocated file
        descriptor = (self._file or self.file).descriptor
        if position == 0:
            self.first_batch_timestamp = batches[0].max_timestamp
            if self.config.preallocated_bytes:
                files.system.ftruncate(descriptor, self.config.preallocated_bytes)
        files.write_at(descriptor, buffers, position)
        if len(batches) > 1:  # reserve first: an error must not leave only some batches indexed
            self.offset_index.entries.reserve(len(batches))
            self.time_index.entries.reserve(len(batches))
        for batch in batches:
            size_bytes = batch.size_bytes
            self.index_batch(position, size_bytes, batch.last_offset, batch.max_timestamp)
            position += size_bytes
        self._last_appended_location = batch_scan.location_of(batch, position - size_bytes)
        self.size_bytes = position

    def index_batch(
        self, position: int, size_bytes: int, last_offset: int, max_timestamp: int
    ) -> None:
        """Index a batch that is appended or scanned at ``position``; positions must ascend."""
        largest = self._max_timestamp_and_offset or self.max_timestamp_and_offset
        if max_timestamp > largest.timestamp:
            largest = TimestampOffset(max_timestamp, last_offset)
        if self._bytes_since_last_index_entry > self.config.index_interval_bytes:
            self._append_index_entries(position, last_offset, largest)
            self._bytes_since_last_index_entry = 0
        self._max_timestamp_and_offset = largest
        self._bytes_since_last_index_entry += size_bytes

    def _append_index_entries(
        self, position: int, last_offset: int, max_timestamp_and_offset: TimestampOffset
    ) -> None:
        entries, time_index = self.offset_index.entries, self.time_index
        is_later = (
            time_index.is_later(max_timestamp_and_offset.timestamp) and not time_index.is_full
        )
        if is_later:
            time_index.entries.reserve()  # before any append: if it fails, neither index changes
        # An old segment may not fit into indexes of today's size; lookups then scan further.
        if entries.count < entries.capacity:
            self.offset_index.append(last_offset, position)
        if is_later:
            time_index.append(max_timestamp_and_offset)
        if entries.count >= entries.capacity or (is_later and time_index.is_full):
            self.is_index_full = True

    def seal(self) -> None:
        """End appends to the segment: add the largest timestamp to the time index, trim files."""
        self.time_index.maybe_append(self.max_timestamp_and_offset)
        self.is_index_full = self.offset_index.is_full or self.time_index.is_full
        self.offset_index.entries.trim_to_valid_size()
        self.time_index.entries.trim_to_valid_size()
        if self.config.preallocated_bytes:
            files.truncate(self.path(LogFileType.LOG), self.size_bytes)

    def reset_indexes(self) -> None:
        """Remove all entries of both indexes, to index the batches from the first one again."""
        self.offset_index.reset()
        self.time_index.reset()
        self.is_index_full = False
        self._bytes_since_last_index_entry = 0
        self._max_timestamp_and_offset = self.time_index.last_entry

    def rebuild_indexes(self) -> CorruptMessage | None:
        """Rebuild both indexes from the batches; return the error at the first corrupt batch."""
        self.is_rebuilding_indexes = True
        with open_segments.not_retriable():
            self.reset_indexes()
            error = self._index_all_batches()
            self.seal()
        self.is_rebuilding_indexes = False
        self._are_indexes_rebuilt = True
        return error

    def _index_all_batches(self) -> CorruptMessage | None:
        batches = batch_scan.check_ascending(
            self.batches(), first_offset=self.base_offset, last_offset_max=self.offset_max
        )
        try:
            for position, batch in batches:
                self.index_batch(position, batch.size_bytes, batch.last_offset, batch.max_timestamp)
        except CorruptMessage as error:
            return error
        return None

    def finish_recovery(self, *, size_bytes: int) -> None:
        """Seal the segment: the .log file was truncated and every batch in it was indexed."""
        self.size_bytes = size_bytes
        self.seal()

    def flush(self) -> None:
        """Flush all files.  All appended records survive a power cut when this returns."""
        files.sync(self.file.descriptor)
        self.offset_index.entries.flush()
        self.time_index.entries.flush()
        self.transaction_index.flush()

    def close(self) -> None:
        if self._file is not None:
            self.seal()
        self.close_handlers()

    def close_handlers(self) -> None:
        """Close the files without changing them."""
        self._file = None
        if self._open_segments is not None:
            self._open_segments.discard(self)
            self._open_segments = None
        self._bytes_since_last_index_entry = 0
        self.offset_index.entries.close_handlers()
        self.time_index.entries.close_handlers()

    # Reading

    def translate_offset(self, offset: int) -> BatchLocation | None:
        """Return the first batch whose last offset is at least ``offset``, or None.

        Raise CorruptMessage if the batches before it break off.
        """
        newest = self._last_appended_location
        if (
            newest is not None
            and newest.contains(offset)
            and newest.end_position == self.size_bytes
        ):
            return newest  # most reads are at the end of the log
        entry, later_position = self.offset_index.lookup_with_next(offset)
        # If batches are large, each has an entry, and the next entry points to the right batch.
        if later_position - entry.position > 2 * HEADERS_READ_BYTES:
            descriptor = (self._file or self.file).descriptor
            location = read_location(descriptor, later_position, self.size_bytes)
            if location is not None and location.contains(offset):
                return location
        return self._translate_offset_from(entry, offset)

    def _translate_offset_from(self, entry: OffsetPosition, offset: int) -> BatchLocation | None:
        # An entry points to the batch or to one before it.  The next large batch is found with one
        # more small read.  The scan below reads many small batches at once.
        descriptor, end = (self._file or self.file).descriptor, self.size_bytes
        location = read_location(descriptor, entry.position, end)
        if location is not None and entry.can_point_to(location):
            while location is not None:
                if location.last_offset >= offset:
                    return location
                if location.size_bytes < HEADERS_READ_BYTES:
                    break
                location = read_location(descriptor, location.end_position, end)
        for later in self._batch_locations_from(entry):
            if later.last_offset >= offset:
                return later
        return None

    def _batch_locations_from(self, entry: OffsetPosition) -> Iterator[BatchLocation]:
        """Yield the locations of the batches, starting at the batch that the entry points to.

        If the entry is wrong, rebuild the indexes and start again at the first batch.  Raise
        CorruptMessage where the batches break off.
        """
        position, is_started = entry.position, entry.position == 0
        for location in self.batch_locations(start=position):
            if not is_started and not entry.can_point_to(location):
                break
            is_started = True
            yield location
            position = location.end_position
        if is_started and position == self.size_bytes:
            return
        if entry.position == 0 or self._are_indexes_rebuilt or self._is_valid_index_entry(entry):
            raise CorruptMessage(f"{self}: no batch at {position}")
        self.rebuild_indexes()
        yield from self._batch_locations_from(OffsetPosition(self.base_offset, 0))

    def _is_valid_index_entry(self, entry: OffsetPosition) -> bool:
        """Whether a batch ends where the entry points, and no unrelated batch begins there."""
        location = read_location(self.file.descriptor, entry.position, self.size_bytes)
        if location is not None and not entry.can_point_to(location):
            return False
        position = self.offset_index.lookup(entry.offset - 1).position
        for before in self.batch_locations(start=position):
            if position >= entry.position:
                break
            position = before.end_position
        return position == entry.position

    def read(
        self, offset: int, *, max_bytes: int, end_position: int, at_least_one: bool
    ) -> FileRegion | None:
        """Return the region from the batch with ``offset`` on, at most ``max_bytes`` long.

        ``end_position`` is the position that readers must not pass, such as the position of the
        high watermark.  The region may end inside a batch; clients discard an incomplete batch.
        With ``at_least_one`` the first batch is complete, whatever its size.  Return None if the
        segment ends before ``offset``.
        """
        location = self.translate_offset(offset)
        if location is None:
            return None
        if at_least_one:
            max_bytes = max(max_bytes, location.size_bytes)
        length = max(0, min(max_bytes, end_position - location.position))
        file = self.file
        return FileRegion(file.descriptor, location.position, length, file=file)

    def batch_locations(self, *, start: int = 0) -> Iterator[BatchLocation]:
        """Yield the locations of the batches from position ``start`` on."""
        return batch_scan.scan_headers(self.file.descriptor, start=start, end=self.size_bytes)

    def batches(self, *, start: int = 0) -> Iterator[tuple[int, AnyBatch]]:
        """Yield position and view of each batch; raise CorruptMessage at other bytes."""
        return batch_scan.scan_batches(self.file.descriptor, start=start, end=self.size_bytes)

    def read_batch(self, location: BatchLocation) -> AnyBatch:
        """Read the batch at a location that a scan returned, and nothing else."""
        batches = batch_scan.scan_batches(
            self.file.descriptor, start=location.position, end=location.end_position
        )
        return next(batches)[1]

    def last_batch_location(self) -> BatchLocation | None:
        """Return the location of the last batch.  Costs a scan from the last index entry on.

        Raise CorruptMessage if the batches break off before the end of the file.
        """
        last = None
        for location in self._batch_locations_from(self.offset_index.last_entry):
            last = location
        return last

    def read_next_offset(self) -> int:
        """Return the offset after the last batch; costs as much as ``last_batch_location``."""
        last = self.last_batch_location()
        return self.base_offset if last is None else last.last_offset + 1

    def _read_max_timestamp_and_offset(self) -> TimestampOffset:
        """Use the time index if its last entry is valid; otherwise rebuild the index.

        The entry that ``seal`` adds may be lost in a crash: it is not flushed if the rest was.
        """
        entry = self.time_index.last_entry
        if (
            self.size_bytes
            and contradicts_batch(self, entry)
            and self._max_timestamp_and_offset is None
        ):
            self.rebuild_indexes()
        return self._max_timestamp_and_offset or scan_for_max_timestamp(self)

    # Files

    def change_file_suffixes(self, stage: FileStage) -> None:
        """Rename the files, the .log file last: the segment exists if the .log file does."""
        assert self._file is None or stage is FileStage.DELETED, self
        for file_type in SEGMENT_FILE_TYPES:
            source = self.path(file_type)
            if source.exists():
                files.rename(source, file_path(self.directory, self.base_offset, file_type, stage))
        self.stage = stage
        self._update_index_paths()

    def update_parent_dir(self, directory: Path) -> None:
        """The directory has been renamed.  Open files stay open."""
        self.directory = directory
        self._update_index_paths()

    def _update_index_paths(self) -> None:
        self.offset_index.entries.path = self.path(LogFileType.OFFSET_INDEX)
        self.time_index.entries.path = self.path(LogFileType.TIME_INDEX)
        self.transaction_index.path = self.path(LogFileType.TRANSACTION_INDEX)

    def remove(self) -> None:
        """Remove the files, the .log file first: the segment exists if the .log file does."""
        self.close_handlers()
        for file_type in reversed(SEGMENT_FILE_TYPES):
            files.remove(self.path(file_type))

    def __repr__(self) -> str:
        return f"LogSegment({self.path(LogFileType.LOG)}, {self.size_bytes} bytes)"
