"""Compaction of a log: for every key the last record stays, at its offset.

    1. the dirty part, from where the last compaction ended, is read, and the last offset of every
       key in it noted (offset_map.py), as far as memory allows
    2. the whole log up to there is read again, segment by segment, and what stays (see
       retention.py) written to ``.cleaned`` segments; neighbours that are small enough
       together become one
    3. the owner of the log puts them in the place of the old ones: see swap.py

Only files are read, and none that is in use is changed.  So all of it runs in a worker process,
while the log is appended to and read, and may be stopped at any moment.

``replacements`` yields each new segment when it is on disk.  Whoever can receive them one by one
puts each in its place before the next is written, and so needs room for one more segment; ``clean``
returns all at once, and needs room for the log a second time.

Owner: the worker process; given sealed segments, returns a plan.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from odradek.protocol.errors import CorruptMessage, DecodeError, EncodeError
from odradek.protocol.records.legacy import LegacyBatch
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage import batch_scan, files
from odradek.storage.cleaner.groups import SegmentExtent, grouped
from odradek.storage.cleaner.offset_map import OffsetMap
from odradek.storage.cleaner.output import CleanedSegment
from odradek.storage.cleaner.pace import Pace
from odradek.storage.cleaner.retention import Kept, Retention, RetentionRules
from odradek.storage.cleaner.task import (
    CleaningPlan,
    CleaningStatistics,
    CleaningTask,
    Replacement,
    SealedSegment,
)
from odradek.storage.cleaner.transactions import TransactionsRead
from odradek.storage.open_file import OpenFile
from odradek.storage.paths import Content, Stage, file_named, file_path
from odradek.storage.transaction_index import AbortedTransaction, TransactionIndex

_BUFFER_BYTES_MIN = 4096


def clean(task: CleaningTask, pace: Pace | None = None) -> CleaningPlan:
    """All at once.  CorruptMessage: the log cannot be compacted, and is as it was."""
    cleaning = Cleaning(task, pace)
    return cleaning.plan(tuple(cleaning.replacements()))


def discard(directory: Path) -> None:
    """Remove what compaction has written and nobody has put in place."""
    for name in files.system.listdir(directory):
        found = file_named(name)
        if found is not None and found.stage is Stage.CLEANED:
            files.remove(directory / name)


class Cleaning:
    """One compaction of one log."""

    def __init__(self, task: CleaningTask, pace: Pace | None = None) -> None:
        self._task = task
        self._pace = Pace() if pace is None else pace
        self._pace.keep_to(task.limits.bytes_per_second)
        self._statistics = CleaningStatistics()
        # One half to read into, the other to write from.
        self._buffer_bytes = max(_BUFFER_BYTES_MIN, task.limits.io_buffer_bytes // 2)
        self._offsets = OffsetMap(
            start_offset=task.first_dirty_offset,
            bytes_max=task.limits.dedupe_buffer_bytes,
            load_factor=task.limits.dedupe_load_factor,
        )
        ends = [*(segment.base_offset for segment in task.segments[1:]), task.end_offset]
        self._segments_and_ends = list(zip(task.segments, ends, strict=False))

    def plan(self, replacements: tuple[Replacement, ...]) -> CleaningPlan:
        """What has been done, once all ``replacements`` have been made."""
        return CleaningPlan(replacements, self._offsets.end_offset, self._statistics)

    def replacements(self) -> Iterator[Replacement]:
        """The new segments, in the order in which they must be put in place.

        If it fails or is given up, nothing is left of those that it has not yielded.
        """
        task, limits, statistics = self._task, self._task.limits, self._statistics
        # Recovery would take what an earlier one left behind for a part of this one.
        discard(task.directory)
        aborted = [*self._aborted_transactions(), *task.later_aborted]
        self._fill_map(aborted)
        statistics.map_utilization = self._offsets.utilization
        retention = Retention(self._retention_rules(), self._offsets, TransactionsRead(aborted))
        old_since_ns = self._modified_ns_of_last_clean() - limits.delete_retention_ms * 1_000_000
        for group in grouped(
            self._extents(),
            segment_bytes_max=limits.segment_bytes_max,
            index_bytes_max=limits.shape.index_bytes_max,
        ):
            yield from self._cleaned(group, retention, old_since_ns=old_since_ns)
        statistics.records_read = retention.read_count
        statistics.keyless_records = retention.keyless_count

    # The map

    def _aborted_transactions(self) -> Iterator[AbortedTransaction]:
        for segment in self._task.segments:
            index = TransactionIndex(self._path(segment, Content.TRANSACTION_INDEX))
            if not index.is_sound(base_offset=segment.base_offset):
                raise CorruptMessage(f"{index.path} is damaged")
            yield from index.entries

    def _fill_map(self, aborted: Sequence[AbortedTransaction]) -> None:
        offsets, statistics, start = self._offsets, self._statistics, self._offsets.start_offset
        transactions = TransactionsRead(entry for entry in aborted if entry.last_offset >= start)
        for segment, end_offset in self._segments_and_ends:
            if end_offset <= start:
                continue
            for batch in self._batches(segment):
                statistics.map_bytes += batch.size_bytes
                if batch.last_offset < start:
                    continue
                if offsets.is_full:
                    return
                statistics.map_records += _noted(batch, offsets, transactions)
                offsets.end_offset = batch.next_offset
            # An earlier compaction may have left a gap before the next segment.
            offsets.end_offset = end_offset

    # The new segments

    def _retention_rules(self) -> RetentionRules:
        task = self._task
        return RetentionRules(
            now_ms=task.now_ms,
            delete_retention_ms=task.limits.delete_retention_ms,
            end_offset=task.end_offset,
            producers=task.producers,
        )

    def _modified_ns_of_last_clean(self) -> int:
        """Tombstones of magic 0 and 1 last that long after compaction first kept them."""
        first_dirty_offset = self._task.first_dirty_offset
        clean = [each for each in self._task.segments if each.base_offset < first_dirty_offset]
        return self._modified_ns(clean[-1]) if clean else 0

    def _extents(self) -> Iterator[SegmentExtent]:
        """Of the segments that the map reaches into."""
        for segment, end_offset in self._segments_and_ends:
            if segment.base_offset < self._offsets.end_offset:
                yield SegmentExtent(
                    segment,
                    end_offset,
                    index_bytes=_file_bytes(self._path(segment, Content.OFFSET_INDEX)),
                    time_index_bytes=_file_bytes(self._path(segment, Content.TIME_INDEX)),
                )

    def _cleaned(
        self, group: Sequence[SealedSegment], retention: Retention, *, old_since_ns: int
    ) -> Iterator[Replacement]:
        """One replacement, or none if all stays as it is."""
        task = self._task
        # It becomes as long as it is, not as long as an active segment may get.
        shape = replace(task.limits.shape, preallocated_bytes=0)
        output = CleanedSegment(
            task.directory, group[0].base_offset, shape, buffer_bytes=self._buffer_bytes
        )
        is_needed = False
        try:
            if self._copy(group, output, retention, old_since_ns=old_since_ns):
                output.finish(modified_ns=self._modified_ns(group[-1]))
                files.sync_directory(task.directory)
                is_needed = True
        finally:
            if not is_needed:
                output.remove()
        self._statistics.bytes_read += sum(segment.size_bytes for segment in group)
        self._statistics.bytes_written += output.size_bytes
        self._statistics.records_written += output.record_count
        if is_needed:
            yield Replacement(task.directory, group[0].base_offset, output.size_bytes, tuple(group))

    def _copy(
        self,
        group: Sequence[SealedSegment],
        output: CleanedSegment,
        retention: Retention,
        *,
        old_since_ns: int,
    ) -> bool:
        """Write what stays of the segments; whether they would be another one than they are."""
        is_changed = len(group) > 1
        for segment in group:
            retention.keeps_old_tombstones = self._modified_ns(segment) > old_since_ns
            for batch in self._batches(segment):
                kept = _judged(batch, retention)
                if retention.aborted is not None:
                    output.note_aborted(retention.aborted)
                is_changed |= kept is None or not kept.is_whole
                if kept is not None:
                    output.add(kept)
                    self._pace.moved(len(kept.buffer))
        return is_changed

    # Files

    def _batches(self, segment: SealedSegment) -> Iterator[AnyBatch]:
        """The batches of a segment, each with the right checksum."""
        path = self._path(segment, Content.BATCHES)
        file = OpenFile(path, writable=False)
        batches = batch_scan.batches(
            file.descriptor, start=0, end=segment.size_bytes, read_bytes=self._buffer_bytes
        )
        end = 0
        try:
            for position, batch in batches:
                batch.check_crc()
                end = position + batch.size_bytes
                yield batch
                self._pace.moved(batch.size_bytes)
        except CorruptMessage as damage:
            raise CorruptMessage(f"{path} at {end}: {damage}") from damage

    def _modified_ns(self, segment: SealedSegment) -> int:
        return os.stat(self._path(segment, Content.BATCHES)).st_mtime_ns

    def _path(self, segment: SealedSegment, content: Content) -> Path:
        return file_path(self._task.directory, segment.base_offset, content)


def _noted(batch: AnyBatch, offsets: OffsetMap, transactions: TransactionsRead) -> int:
    """Put the keys of a batch into the map; how many records it has."""
    try:
        if isinstance(batch, LegacyBatch):
            return offsets.note(batch)
        if batch.is_control:
            transactions.end(batch)
        elif not transactions.is_aborted(batch):
            return offsets.note(batch)
    except DecodeError as damage:
        raise CorruptMessage(f"{batch}: {damage}") from damage
    return batch.count


def _judged(batch: AnyBatch, retention: Retention) -> Kept | None:
    try:
        return retention.judge(batch)
    except (DecodeError, EncodeError) as damage:
        raise CorruptMessage(f"{batch}: {damage}") from damage


def _file_bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
