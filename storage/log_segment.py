"""One .log file and its indexes: a run of a log that is appended to, read and sealed.

    00000000000000000042.log         batches, back to back; the first may begin after offset 42
                        .index       offset -> position          offset_index.py
                        .timeindex   timestamp -> offset         time_index.py
                        .txnindex    aborted transactions        transaction_index.py

The order of an append: the bytes, then the indexes, then ``size_bytes``.  Nobody reads beyond
``size_bytes``, so a failed or torn write is as if it had not been tried; the next one overwrites
it, and recovery cuts it off.  Index entries that point beyond the bytes cannot be: an index that
cannot be written fails the append before ``size_bytes`` moves.

With ``preallocate`` the first append makes the .log file as long as it may become, and it is cut to
``size_bytes`` when it is sealed or closed.

Indexes have no checksums.  So an entry is believed only if there is a batch where it leads; else
both indexes are made anew.  Where the entry is right and yet the batches break off, it is they that
are damaged, and the reader is told.

Files are opened on first use, so that a clean log of a thousand segments costs a thousand names,
and closed again if too many are open: see open_segments.py.  ``create`` or compaction makes them.

Invariant: in an active segment, ``size_bytes`` is the end of the last acknowledged batch.
Owner: the event loop, or whoever recovers or compacts the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.file_region import FileRegion
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage import batch_scan, files, open_segments
from odradek.storage.batch_scan import HEADERS_READ_BYTES, BatchPlace, place_at
from odradek.storage.largest_timestamp import contradicts, largest_by_scan
from odradek.storage.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex, OffsetPosition
from odradek.storage.open_file import OpenFile
from odradek.storage.paths import SEGMENT_CONTENTS, Content, Stage, file_path
from odradek.storage.time_index import TimeIndex, TimestampOffset
from odradek.storage.transaction_index import TransactionIndex

#: Positions in the index are 32 bits, of which Kafka reads the highest as a sign.
SEGMENT_BYTES_MAX = 0x7FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentShape:
    """How segments are laid out: the part of a topic's settings that they need."""

    index_interval_bytes: int = 4096
    index_bytes_max: int = 10 * 1024 * 1024
    preallocated_bytes: int = 0  # 0: grows as it is written


class LogSegment:
    """An append-only file of record batches, searchable by offset and by timestamp."""

    def __init__(
        self, directory: Path, base_offset: int, shape: SegmentShape, *, stage: Stage = Stage.IN_USE
    ) -> None:
        """Open the segment as its files are; see ``create`` for a new one.

        The size is that of the .log file, which is true of one that was closed or recovered.
        """
        self.directory = directory
        self.base_offset = base_offset
        self.shape = shape
        self.stage = stage
        self._file: OpenFile | None = None
        self._opened: open_segments.OpenSegments | None = None
        self.size_bytes = files.size_of(self.path(Content.BATCHES)) or 0
        index_bytes = shape.index_bytes_max
        self.index = OffsetIndex(
            self.path(Content.OFFSET_INDEX), base_offset=base_offset, bytes_max=index_bytes
        )
        self.time_index = TimeIndex(
            self.path(Content.TIME_INDEX), base_offset=base_offset, bytes_max=index_bytes
        )
        self.transaction_index = TransactionIndex(self.path(Content.TRANSACTION_INDEX))
        self.offset_max = base_offset + RELATIVE_OFFSET_MAX
        self.is_index_full = self.index.is_full or self.time_index.is_full
        self._bytes_since_entry = 0
        self._largest: TimestampOffset | None = None
        self._newest: BatchPlace | None = None  # what was appended last, while it ends the segment
        self._are_indexes_new = False
        self.are_indexes_half_made = False  # if it was broken off, the log has to be opened again
        #: What its age is counted from, once that has been looked at: see rolling.py.
        self.first_timestamp: int | None = None
        self.begun_ms: int | None = None

    def path(self, content: Content) -> Path:
        return file_path(self.directory, self.base_offset, content, self.stage)

    @property
    def index_paths(self) -> list[Path]:
        return [self.path(content) for content in SEGMENT_CONTENTS[:-1]]

    @property
    def file(self) -> OpenFile:
        if self._file is None:
            is_there = self.stage is not Stage.CLEANED
            self._file = OpenFile(self.path(Content.BATCHES), writable=True, is_there=is_there)
            self._opened = open_segments.beside(self)
            self._opened.note(self)
        return self._file

    @property
    def is_open(self) -> bool:
        return self._file is not None

    @property
    def is_at_rest(self) -> bool:
        """Whether it may be closed: it has its name, and was only read since it was opened."""
        has_room = self.index.entries.has_room or self.time_index.entries.has_room
        is_changing = has_room or self.are_indexes_half_made
        return self._bytes_since_entry == 0 and not is_changing and self.stage is Stage.IN_USE

    @property
    def largest(self) -> TimestampOffset:
        """The largest timestamp, and the last offset of the first batch that has it."""
        if self._largest is None:
            with open_segments.left_as_found(self):
                self._largest = self._largest_by_index()
        return self._largest

    # Writing

    def create(self) -> None:
        """Make the files of a new segment: even an empty one says where the log goes on."""
        files.system.close(files.open_for_writing(self.path(Content.BATCHES)))
        self.index.entries.seal()
        self.time_index.entries.seal()

    def append(self, buffers: Sequence[files.Buffer], batches: Sequence[AnyBatch]) -> None:
        """Append whole batches whose offsets are already assigned; ``buffers`` hold their bytes."""
        position = self.size_bytes
        assert self.base_offset <= batches[-1].last_offset <= self.offset_max, (self, batches)
        self._largest = self._largest or self.largest  # may make the indexes anew, and cut the file
        descriptor = (self._file or self.file).descriptor
        if position == 0:
            self.first_timestamp = batches[0].max_timestamp
            if self.shape.preallocated_bytes:
                files.system.ftruncate(descriptor, self.shape.preallocated_bytes)
        files.write_at(descriptor, buffers, position)
        if len(batches) > 1:  # a single one is noted or not; of many, some must not be
            self.index.entries.reserve(len(batches))
            self.time_index.entries.reserve(len(batches))
        for batch in batches:
            size_bytes = batch.size_bytes
            self.note(position, size_bytes, batch.last_offset, batch.max_timestamp)
            position += size_bytes
        self._newest = batch_scan.place_of(batch, position - size_bytes)
        self.size_bytes = position

    def note(self, position: int, size_bytes: int, last_offset: int, max_timestamp: int) -> None:
        """Index a batch that is being written, or was found, at ``position``; positions ascend."""
        largest = self._largest or self.largest
        if max_timestamp > largest.timestamp:
            largest = TimestampOffset(max_timestamp, last_offset)
        if self._bytes_since_entry > self.shape.index_interval_bytes:
            self._add_entries(position, last_offset, largest)
            self._bytes_since_entry = 0
        self._largest = largest
        self._bytes_since_entry += size_bytes

    def _add_entries(self, position: int, last_offset: int, largest: TimestampOffset) -> None:
        entries, time_index = self.index.entries, self.time_index
        is_later = time_index.is_later(largest.timestamp) and not time_index.is_full
        if is_later:
            time_index.entries.reserve()  # first, as it may fail, and then neither is noted
        # An old segment may not fit the indexes of today: a lookup then walks further.
        if entries.count < entries.capacity:
            self.index.append(last_offset, position)
        if is_later:
            time_index.append(largest)
        if entries.count >= entries.capacity or (is_later and time_index.is_full):
            self.is_index_full = True

    def seal(self) -> None:
        """No more will be appended: the last entry of the time index is the largest timestamp."""
        self.time_index.append_if_later(self.largest)
        self.is_index_full = self.index.is_full or self.time_index.is_full
        self.index.entries.seal()
        self.time_index.entries.seal()
        if self.shape.preallocated_bytes:
            files.truncate(self.path(Content.BATCHES), self.size_bytes)

    def reset_indexes(self) -> None:
        """Forget all entries of both, so that the batches can be noted from the first on."""
        self.index.reset()
        self.time_index.reset()
        self.is_index_full = False
        self._bytes_since_entry = 0
        self._largest = self.time_index.last

    def rebuild_indexes(self) -> CorruptMessage | None:
        """Both anew from the batches, up to the first that cannot be one; why not, if there is."""
        self.are_indexes_half_made = True
        with open_segments.undivided():
            self.reset_indexes()
            damage = self._note_all()
            self.seal()
        self.are_indexes_half_made = False
        self._are_indexes_new = True
        return damage

    def _note_all(self) -> CorruptMessage | None:
        batches = batch_scan.ascending(self.batches(), first=self.base_offset, last=self.offset_max)
        try:
            for position, batch in batches:
                self.note(position, batch.size_bytes, batch.last_offset, batch.max_timestamp)
        except CorruptMessage as damage:
            return damage
        return None

    def recovered(self, *, size_bytes: int) -> None:
        """The .log file has been cut to ``size_bytes``, and every batch in it noted."""
        self.size_bytes = size_bytes
        self.seal()

    def flush(self) -> None:
        """All that was appended survives a power cut once this returns."""
        files.sync(self.file.descriptor)
        self.index.entries.flush()
        self.time_index.entries.flush()
        self.transaction_index.flush()

    def close(self) -> None:
        if self._file is not None:
            self.seal()
        self.abandon()

    def abandon(self) -> None:
        """Let go of the files as they are."""
        self._file = None
        if self._opened is not None:
            self._opened.forget(self)
            self._opened = None
        self._bytes_since_entry = 0
        self.index.entries.abandon()
        self.time_index.entries.abandon()

    # Reading

    def find(self, offset: int) -> BatchPlace | None:
        """The first batch whose last offset is ``offset`` or a later one; None if there is none.

        CorruptMessage if it cannot be reached.
        """
        newest = self._newest
        if newest is not None and newest.holds(offset) and newest.end == self.size_bytes:
            return newest  # as nearly all who read are at the end
        entry, later_position = self.index.around(offset)
        # Where batches are large each has an entry, and the later one leads to the very batch.
        if later_position - entry.position > 2 * HEADERS_READ_BYTES:
            descriptor = (self._file or self.file).descriptor
            place = place_at(descriptor, later_position, self.size_bytes)
            if place is not None and place.holds(offset):
                return place
        return self._find_from(entry, offset)

    def _find_from(self, entry: OffsetPosition, offset: int) -> BatchPlace | None:
        # An index entry leads to the very batch or to one before it, of which the next is found by
        # another small read; the walk below is for batches so small that many are read at once.
        descriptor, end = (self._file or self.file).descriptor, self.size_bytes
        place = place_at(descriptor, entry.position, end)
        if place is not None and entry.may_lead_to(place):
            while place is not None:
                if place.last_offset >= offset:
                    return place
                if place.size_bytes < HEADERS_READ_BYTES:
                    break
                place = place_at(descriptor, place.end, end)
        for later in self._places_from(entry):
            if later.last_offset >= offset:
                return later
        return None

    def _places_from(self, entry: OffsetPosition) -> Iterator[BatchPlace]:
        """Where the batches are, from the one that an index entry leads to on.

        If the entry has led astray, the indexes are made anew, and the walk starts over at the
        beginning.  CorruptMessage where the batches break off.
        """
        position, is_begun = entry.position, entry.position == 0
        for place in self.places(start=position):
            if not is_begun and not entry.may_lead_to(place):
                break
            is_begun = True
            yield place
            position = place.end
        if is_begun and position == self.size_bytes:
            return
        if entry.position == 0 or self._are_indexes_new or self._is_right(entry):
            raise CorruptMessage(f"{self}: no batch at {position}")
        self.rebuild_indexes()
        yield from self._places_from(OffsetPosition(self.base_offset, 0))

    def _is_right(self, entry: OffsetPosition) -> bool:
        """Whether a batch ends where an entry leads, and no other begins there."""
        place = place_at(self.file.descriptor, entry.position, self.size_bytes)
        if place is not None and not entry.may_lead_to(place):
            return False
        position = self.index.lookup(entry.offset - 1).position
        for before in self.places(start=position):
            if position >= entry.position:
                break
            position = before.end
        return position == entry.position

    def read(
        self, offset: int, *, max_bytes: int, end_position: int, at_least_one: bool
    ) -> FileRegion | None:
        """Lend the bytes from the batch holding ``offset`` on, at most ``max_bytes`` of them.

        ``end_position`` is a position no reader may pass, such as that of the high watermark.  The
        region may end inside a batch, whose beginning clients discard; with ``at_least_one`` the
        first batch is whole, however large.  None if the segment ends before ``offset``.
        """
        place = self.find(offset)
        if place is None:
            return None
        if at_least_one:
            max_bytes = max(max_bytes, place.size_bytes)
        length = max(0, min(max_bytes, end_position - place.position))
        file = self.file
        return FileRegion(file.descriptor, place.position, length, keeper=file)

    def places(self, *, start: int = 0) -> Iterator[BatchPlace]:
        """Where the batches from position ``start`` on are."""
        return batch_scan.headers(self.file.descriptor, start=start, end=self.size_bytes)

    def batches(self, *, start: int = 0) -> Iterator[tuple[int, AnyBatch]]:
        """Position and view of each batch; CorruptMessage where there is none."""
        return batch_scan.batches(self.file.descriptor, start=start, end=self.size_bytes)

    def batch_at(self, place: BatchPlace) -> AnyBatch:
        """The batch that was found there; nothing else is read."""
        found = batch_scan.batches(self.file.descriptor, start=place.position, end=place.end)
        return next(found)[1]

    def last_place(self) -> BatchPlace | None:
        """Where the last batch is; costs a walk from the last index entry on.

        CorruptMessage if the batches break off before the end of the file.
        """
        last = None
        for place in self._places_from(self.index.last):
            last = place
        return last

    def next_offset(self) -> int:
        """The offset after the last in the segment; as costly as ``last_place``."""
        last = self.last_place()
        return self.base_offset if last is None else last.last_offset + 1

    def _largest_by_index(self) -> TimestampOffset:
        """As the time index has it, if its last entry is true; else the index is made anew.

        The entry that sealing has added may be gone again: it is not synced if all else was.
        """
        entry = self.time_index.last
        if self.size_bytes and contradicts(self, entry) and self._largest is None:
            self.rebuild_indexes()
        return self._largest or largest_by_scan(self)

    # Files

    def move(self, stage: Stage) -> None:
        """Rename the files, the batches last, as a segment is there if they are."""
        assert self._file is None or stage is Stage.DELETED, self
        for content in SEGMENT_CONTENTS:
            source = self.path(content)
            if source.exists():
                files.rename(source, file_path(self.directory, self.base_offset, content, stage))
        self.stage = stage
        self._take_over_names()

    def relocate(self, directory: Path) -> None:
        """The directory has been renamed.  What is open stays open."""
        self.directory = directory
        self._take_over_names()

    def _take_over_names(self) -> None:
        self.index.entries.path = self.path(Content.OFFSET_INDEX)
        self.time_index.entries.path = self.path(Content.TIME_INDEX)
        self.transaction_index.path = self.path(Content.TRANSACTION_INDEX)

    def remove(self) -> None:
        """Remove the files for good, the batches first, as a segment is there if they are."""
        self.abandon()
        for content in reversed(SEGMENT_CONTENTS):
            files.remove(self.path(content))

    def __repr__(self) -> str:
        return f"LogSegment({self.path(Content.BATCHES)}, {self.size_bytes} bytes)"
