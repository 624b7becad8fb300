"""Splits: parts of segments that any process with access to the files can read independently.

The plan excludes what the options do not select before anything is read: topics by name, segments
and parts of segments by offset (offset index) and by timestamp (time index).  A large segment is
split between batches, by the offset index.  Each split position is verified against the batch
there.  Where the index is unusable, the lengths of the batches lead from one to the next.

Owner: the process that plans; splits are immutable and can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from odradek.spark_jobs.scan.catalog import PartitionLog, Segment, find_partition_logs
from odradek.spark_jobs.scan.file_access import File
from odradek.spark_jobs.scan.lookup import BatchPosition, SegmentLookup, find_offset_by_timestamp
from odradek.spark_jobs.scan.options import EARLIEST, LATEST, PartitionOffsets, ScanOptions, View
from odradek.spark_jobs.scan.resync import SearchRange, batch_positions, valid_batch_at
from odradek.spark_jobs.scan.segment_reader import OFFSET_MAX, SegmentRange, check_crc32c_available
from odradek.spark_jobs.scan.transactions import PartitionTransactions, load_transactions
from odradek.storage.transaction_index import AbortedTxn

#: Retention and compaction change one file after the other, but they finish.
ATTEMPTS_MAX = 5

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Split:
    """A range of a segment; the offsets from ``start_offset`` to below ``end_offset`` are read."""

    topic: str
    partition: int
    path: str
    segment_bytes: int  # the size of the file when the split was planned
    segment_range: SegmentRange
    start_offset: int
    end_offset: int
    aborted: tuple[AbortedTxn, ...]

    @property
    def size_bytes(self) -> int:
        return self.segment_range.end_position - self.segment_range.start_position

    def matches(self, file: File) -> bool:
        """Whether this is the file that was planned; compaction may have replaced it.

        Compaction shrinks a file, so the size usually shows it.  But the active segment may have
        grown before compaction, and may still be larger afterwards.  If the split still starts
        with the same batch, nothing before it was removed, and the records that are left of the
        split have not moved to lower positions.
        """
        is_last = self.segment_range.offset_max == OFFSET_MAX
        is_grown = is_last and file.size_bytes > self.segment_bytes
        if file.size_bytes != self.segment_bytes and not is_grown:
            return False
        start, first_offset = self.segment_range.start_position, self.segment_range.first_offset
        # A split without rows, which only reports damage, does not start with a valid batch.
        if start == 0 or self.start_offset >= self.end_offset:
            return True
        search = SearchRange(start, file.size_bytes, first_offset, first_offset)
        return valid_batch_at(file, search) is not None


def plan(options: ScanOptions) -> list[Split]:
    """Return all splits, ordered by topic, partition and offset."""
    check_crc32c_available()
    return retry_on_missing_file(lambda: _plan_once(options))


def retry_on_missing_file(action: Callable[[], Result]) -> Result:
    """Run ``action``; if a file disappears meanwhile, run it again, ATTEMPTS_MAX times at most."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return action()
        except FileNotFoundError:
            continue
    return action()


def _plan_once(options: ScanOptions) -> list[Split]:
    splits: list[Split] = []
    for log in find_partition_logs(options):
        transactions = (
            load_transactions(log) if needs_transaction_state(options) else PartitionTransactions()
        )
        end_offset = OFFSET_MAX if log.high_watermark is None else log.high_watermark
        latest = transactions.last_stable_offset(end_offset)
        offset_range = resolve_offset_range(log, options, latest)
        splits += plan_splits(log, offset_range, transactions, options)
        splits += plan_damage_beyond_lso(log, offset_range, transactions)
    return splits


def needs_transaction_state(options: ScanOptions) -> bool:
    # The batches view shows all batches, at either isolation level.
    return options.is_read_committed and options.view is View.RECORDS


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets from ``start`` to below ``end``."""

    start: int
    end: int


def plan_splits(
    log: PartitionLog,
    offset_range: OffsetRange,
    transactions: PartitionTransactions,
    options: ScanOptions,
) -> Iterator[Split]:
    """Split one partition; ``transactions`` holds its aborted transactions."""
    for segment in log.segments:
        if segment.base_offset >= offset_range.end or segment.offset_max < offset_range.start:
            continue
        with log.file_system.open(segment.path) as file:
            lookup = SegmentLookup(log.file_system, segment, file)
            positions = _split_positions(lookup, file, offset_range, options)
            size_bytes = file.size_bytes
        for start, end in pairwise(positions):
            segment_range = SegmentRange(
                start.position,
                end.position,
                start.offset,
                stop_offset=min(offset_range.end, end.offset),
                offset_max=segment.offset_max,
                is_last=segment.next_base_offset is None and end == lookup.end,
                high_watermark=log.high_watermark,
            )
            yield Split(
                topic=log.topic,
                partition=log.partition,
                path=segment.path,
                segment_bytes=size_bytes,
                segment_range=segment_range,
                start_offset=offset_range.start,
                end_offset=offset_range.end,
                aborted=_overlapping_aborted(transactions, segment, start.offset),
            )


def plan_damage_beyond_lso(
    log: PartitionLog, offset_range: OffsetRange, transactions: PartitionTransactions
) -> Iterator[Split]:
    """Yield splits without rows that report damage above the last stable offset.

    Nothing is read from the first open transaction on.  Damage there may hide the end of that
    transaction, and so be the reason that nothing is read.
    """
    if offset_range.end not in transactions.open_transactions.values():
        return
    for segment, damaged_range in transactions.damage:
        if damaged_range.first_offset >= offset_range.end:
            segment_range = SegmentRange(
                damaged_range.position,
                damaged_range.end_position,
                damaged_range.first_offset,
                offset_max=segment.offset_max,
                is_last=False,
            )
            yield Split(
                topic=log.topic,
                partition=log.partition,
                path=segment.path,
                segment_bytes=segment.size_bytes,
                segment_range=segment_range,
                start_offset=offset_range.end,
                end_offset=offset_range.end,
                aborted=(),
            )


def resolve_offset_range(log: PartitionLog, options: ScanOptions, latest: int) -> OffsetRange:
    """Resolve the options for a partition that is readable up to ``latest``."""
    start = _resolve_offset(log, options.starting_offsets, default=EARLIEST, latest=latest)
    end = _resolve_offset(log, options.ending_offsets, default=LATEST, latest=latest)
    if options.starting_timestamp is not None:
        first = find_offset_by_timestamp(log, options.starting_timestamp)
        start = latest if first is None else first
    if options.ending_timestamp is not None:
        first = find_offset_by_timestamp(log, options.ending_timestamp)
        end = latest if first is None else first
    return OffsetRange(max(start, log.log_start_offset), min(end, latest))


def _resolve_offset(
    log: PartitionLog, offsets: PartitionOffsets, *, default: int, latest: int
) -> int:
    offset = offsets.get((log.topic, log.partition), default)
    if offset == EARLIEST:
        return log.log_start_offset
    return latest if offset == LATEST else offset


def _split_positions(
    lookup: SegmentLookup, file: File, offset_range: OffsetRange, options: ScanOptions
) -> list[BatchPosition]:
    """Return the start of each split, and the end of the last one."""
    first = lookup.find_at_or_before(offset_range.start)
    last = lookup.find_after(offset_range.end) or lookup.end
    positions = [first]
    while (target := positions[-1].position + options.max_split_bytes) < last.position:
        split_position = _find_split_position(lookup, file, positions[-1], target)
        if split_position is None or split_position.position >= last.position:
            break
        positions.append(split_position)
    return [*positions, last]


def _find_split_position(
    lookup: SegmentLookup, file: File, previous: BatchPosition, target_position: int
) -> BatchPosition | None:
    """Return the first batch at or after ``target_position``, or None if it cannot be found."""
    offsets, positions = lookup.offset_entries
    slot = int(np.searchsorted(positions, target_position))
    if slot < len(positions):
        candidate = lookup.verify_batch_at(int(positions[slot]), int(offsets[slot]))
        if candidate is not None and candidate.offset > previous.offset:
            return candidate
    for position in batch_positions(file, previous.position):
        if position >= target_position:
            return lookup.verify_batch_at(position, OFFSET_MAX)
    return None


def _overlapping_aborted(
    transactions: PartitionTransactions, segment: Segment, first_offset: int
) -> tuple[AbortedTxn, ...]:
    """Return the aborted transactions that overlap ``first_offset`` to the segment's end."""
    return tuple(
        sorted(
            aborted
            for aborted in transactions.aborted
            if aborted.last_offset >= first_offset and aborted.first_offset <= segment.offset_max
        )
    )
