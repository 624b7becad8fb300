"""Compaction of one log: keep the last record of every key, at its offset.

Kafka: Cleaner.

    1. Build the offset map: read the dirty part, from where the last compaction ended, and record
       the last offset of every key (offset_map.py), as far as memory allows.
    2. Read the whole log up to that point again, segment by segment, and write the retained records
       (record_filter.py) to ``.cleaned`` segments.  Neighbouring segments that are small enough
       together become one segment.
    3. The owner of the log replaces the old segments by the new ones: see segment_swap.py.

Cleaning only reads files and changes none that is in use.  So it runs in a worker process while the
log is appended to and read, and can be aborted at any moment.

``clean_segments`` yields each new segment when it is on disk.  A caller that swaps in each segment
before the next is written needs disk space for one more segment.  ``clean`` returns all at once and
needs disk space for a second copy of the log.

Owner: the worker process; it receives sealed segments and returns a CleaningResult.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from odradek.protocol.errors import CorruptMessage, DecodeError, EncodeError
from odradek.protocol.records.legacy_batch import LegacyBatch
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage import batch_scan, files
from odradek.storage.cleaner.cleaned_segment import CleanedSegment
from odradek.storage.cleaner.cleaned_transaction_metadata import CleanedTransactionMetadata
from odradek.storage.cleaner.offset_map import OffsetMap
from odradek.storage.cleaner.record_filter import RecordFilter, RecordFilterParams, RetainedBatch
from odradek.storage.cleaner.segment_groups import SegmentExtent, group_segments_by_size
from odradek.storage.cleaner.task import (
    CleanerStats,
    CleaningResult,
    CleaningTask,
    SealedSegment,
    SegmentReplacement,
)
from odradek.storage.cleaner.throttler import CleanerThrottler
from odradek.storage.open_file import OpenFile
from odradek.storage.paths import FileStage, LogFileType, file_path, parse_file_name
from odradek.storage.transaction_index import AbortedTxn, TransactionIndex

_BUFFER_BYTES_MIN = 4096


def clean(task: CleaningTask, throttler: CleanerThrottler | None = None) -> CleaningResult:
    """Clean all segments at once.  On CorruptMessage the log cannot be compacted and is unchanged.

    See ``Cleaner.clean_segments`` for cleaning one segment at a time.
    """
    cleaner = Cleaner(task, throttler)
    return cleaner.build_result(tuple(cleaner.clean_segments()))


def remove_cleaned_files(directory: Path) -> None:
    """Remove the output of earlier compactions that was never swapped in."""
    for name in files.system.listdir(directory):
        file_name = parse_file_name(name)
        if file_name is not None and file_name.stage is FileStage.CLEANED:
            files.remove(directory / name)


class Cleaner:
    """One compaction of one log.  Kafka: Cleaner."""

    def __init__(self, task: CleaningTask, throttler: CleanerThrottler | None = None) -> None:
        self._task = task
        self._throttler = CleanerThrottler() if throttler is None else throttler
        self._throttler.set_rate(task.config.bytes_per_second)
        self._stats = CleanerStats()
        # One half of the buffer is for reading, the other for writing.
        self._buffer_bytes = max(_BUFFER_BYTES_MIN, task.config.io_buffer_bytes // 2)
        self._offset_map = OffsetMap(
            start_offset=task.first_dirty_offset,
            bytes_max=task.config.dedupe_buffer_bytes,
            load_factor=task.config.dedupe_load_factor,
        )
        ends = [
            *(segment.base_offset for segment in task.segments[1:]),
            task.first_uncleanable_offset,
        ]
        self._segments_and_ends = list(zip(task.segments, ends, strict=False))

    def build_result(self, replacements: tuple[SegmentReplacement, ...]) -> CleaningResult:
        """Return the result, after ``clean_segments`` is exhausted."""
        return CleaningResult(replacements, self._offset_map.end_offset, self._stats)

    def clean_segments(self) -> Iterator[SegmentReplacement]:
        """Yield the new segments in the order in which they must be swapped in.

        If cleaning fails or is aborted, the files of segments that were not yielded are removed.
        """
        task, config, stats = self._task, self._task.config, self._stats
        # Recovery would otherwise take old output files for a part of this compaction.
        remove_cleaned_files(task.directory)
        aborted_txns = [*self._read_aborted_txns(), *task.later_aborted_txns]
        self._build_offset_map(aborted_txns)
        stats.map_utilization = self._offset_map.utilization
        record_filter = RecordFilter(
            self._build_filter_params(), self._offset_map, CleanedTransactionMetadata(aborted_txns)
        )
        legacy_delete_horizon_ns = (
            self._last_modified_ns_of_clean_part() - config.delete_retention_ms * 1_000_000
        )
        for group in group_segments_by_size(
            self._segment_extents(),
            segment_bytes_max=config.segment_bytes_max,
            index_bytes_max=config.segment_config.index_bytes_max,
        ):
            yield from self._clean_group(
                group, record_filter, legacy_delete_horizon_ns=legacy_delete_horizon_ns
            )
        stats.records_read = record_filter.records_read
        stats.keyless_records = record_filter.keyless_records

    # Offset map

    def _read_aborted_txns(self) -> Iterator[AbortedTxn]:
        for segment in self._task.segments:
            index = TransactionIndex(self._path(segment, LogFileType.TRANSACTION_INDEX))
            if not index.passes_sanity_check(base_offset=segment.base_offset):
                raise CorruptMessage(f"{index.path}: transaction index failed its sanity check")
            yield from index.entries

    def _build_offset_map(self, aborted_txns: Sequence[AbortedTxn]) -> None:
        offsets, stats, start = self._offset_map, self._stats, self._offset_map.start_offset
        transactions = CleanedTransactionMetadata(
            entry for entry in aborted_txns if entry.last_offset >= start
        )
        for segment, end_offset in self._segments_and_ends:
            if end_offset <= start:
                continue
            for batch in self._read_batches(segment):
                stats.map_bytes_read += batch.size_bytes
                if batch.last_offset < start:
                    continue
                if offsets.is_full:
                    return
                stats.map_records_read += _add_to_offset_map(batch, offsets, transactions)
                offsets.end_offset = batch.next_offset
            # An earlier compaction may have left an offset gap before the next segment.
            offsets.end_offset = end_offset

    # New segments

    def _build_filter_params(self) -> RecordFilterParams:
        task = self._task
        return RecordFilterParams(
            now_ms=task.now_ms,
            delete_retention_ms=task.config.delete_retention_ms,
            end_offset=task.first_uncleanable_offset,
            last_records_of_active_producers=task.last_records_of_active_producers,
        )

    def _last_modified_ns_of_clean_part(self) -> int:
        """Return the modification time of the last segment that was cleaned before; 0 if none.

        Tombstones of magic 0 and 1 are retained in segments that were modified later than
        ``delete.retention.ms`` before this time.
        """
        first_dirty_offset = self._task.first_dirty_offset
        cleaned = [
            segment for segment in self._task.segments if segment.base_offset < first_dirty_offset
        ]
        return self._last_modified_ns(cleaned[-1]) if cleaned else 0

    def _segment_extents(self) -> Iterator[SegmentExtent]:
        """Yield the sizes of the segments that the offset map covers, also in part."""
        for segment, end_offset in self._segments_and_ends:
            if segment.base_offset < self._offset_map.end_offset:
                yield SegmentExtent(
                    segment,
                    end_offset,
                    index_bytes=_file_bytes(self._path(segment, LogFileType.OFFSET_INDEX)),
                    time_index_bytes=_file_bytes(self._path(segment, LogFileType.TIME_INDEX)),
                )

    def _clean_group(
        self,
        group: Sequence[SealedSegment],
        record_filter: RecordFilter,
        *,
        legacy_delete_horizon_ns: int,
    ) -> Iterator[SegmentReplacement]:
        """Yield one replacement, or none if the segments stay as they are."""
        task = self._task
        # A cleaned segment is never appended to, so it needs no preallocation.
        segment_config = replace(task.config.segment_config, preallocated_bytes=0)
        output = CleanedSegment(
            task.directory, group[0].base_offset, segment_config, buffer_bytes=self._buffer_bytes
        )
        is_needed = False
        try:
            if self._clean_into(
                group, output, record_filter, legacy_delete_horizon_ns=legacy_delete_horizon_ns
            ):
                output.finish(modified_ns=self._last_modified_ns(group[-1]))
                files.sync_directory(task.directory)
                is_needed = True
        finally:
            if not is_needed:
                output.remove()
        self._stats.bytes_read += sum(segment.size_bytes for segment in group)
        self._stats.bytes_written += output.size_bytes
        self._stats.records_written += output.record_count
        if is_needed:
            yield SegmentReplacement(
                task.directory, group[0].base_offset, output.size_bytes, tuple(group)
            )

    def _clean_into(
        self,
        group: Sequence[SealedSegment],
        cleaned_segment: CleanedSegment,
        record_filter: RecordFilter,
        *,
        legacy_delete_horizon_ns: int,
    ) -> bool:
        """Write the retained batches.  Return whether the result differs from the input."""
        is_changed = len(group) > 1
        for segment in group:
            record_filter.retains_legacy_tombstones = (
                self._last_modified_ns(segment) > legacy_delete_horizon_ns
            )
            for batch in self._read_batches(segment):
                retained = _filter_batch(batch, record_filter)
                if record_filter.aborted_txn is not None:
                    cleaned_segment.append_aborted_txn(record_filter.aborted_txn)
                is_changed |= retained is None or not retained.is_unchanged
                if retained is not None:
                    cleaned_segment.append(retained)
                    self._throttler.maybe_throttle(len(retained.buffer))
        return is_changed

    # Files

    def _read_batches(self, segment: SealedSegment) -> Iterator[AnyBatch]:
        """Yield the batches of a segment and verify the checksum of each."""
        path = self._path(segment, LogFileType.LOG)
        file = OpenFile(path, writable=False)
        batches = batch_scan.scan_batches(
            file.descriptor, start=0, end=segment.size_bytes, read_bytes=self._buffer_bytes
        )
        end = 0
        try:
            for position, batch in batches:
                batch.check_crc()
                end = position + batch.size_bytes
                yield batch
                self._throttler.maybe_throttle(batch.size_bytes)
        except CorruptMessage as error:
            raise CorruptMessage(f"{path} at {end}: {error}") from error

    def _last_modified_ns(self, segment: SealedSegment) -> int:
        return os.stat(self._path(segment, LogFileType.LOG)).st_mtime_ns

    def _path(self, segment: SealedSegment, file_type: LogFileType) -> Path:
        return file_path(self._task.directory, segment.base_offset, file_type)


def _add_to_offset_map(
    batch: AnyBatch, offset_map: OffsetMap, transaction_metadata: CleanedTransactionMetadata
) -> int:
    """Put the keys of a batch into the map.  Return the number of records read."""
    try:
        if isinstance(batch, LegacyBatch):
            return offset_map.put_batch(batch)
        if batch.is_control:
            transaction_metadata.on_control_batch_read(batch)
        elif not transaction_metadata.on_batch_read(batch):
            return offset_map.put_batch(batch)
    except DecodeError as error:
        raise CorruptMessage(f"{batch}: {error}") from error
    return batch.count


def _filter_batch(batch: AnyBatch, record_filter: RecordFilter) -> RetainedBatch | None:
    try:
        return record_filter.filter_batch(batch)
    except (DecodeError, EncodeError) as error:
        raise CorruptMessage(f"{batch}: {error}") from error


def _file_bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
