"""Batches of a log as rows of numbers, which the other files are compared with.

Reading a segment reads every byte once, verifies checksums and offsets, and decodes the records.
Only the header of a batch stays in memory, some 70 bytes: a partition of 100 GB in batches of 16 KB
takes half a gigabyte.

A batch of magic 0 or 1 does not contain its base offset: it is taken as the offset after the batch
before.

Owner: the task that audits the partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import CONTROL_FLAG, RecordBatch
from odradek.protocol.records.control_records import parse_end_transaction_marker
from odradek.spark_jobs.scan.batch_group import BatchGroup
from odradek.spark_jobs.scan.catalog import PartitionLog, Segment
from odradek.spark_jobs.scan.file_access import File, split_path
from odradek.spark_jobs.scan.legacy_formats import decode_legacy_batches
from odradek.spark_jobs.scan.read_spec import ReadSpec
from odradek.spark_jobs.scan.record_decoder import DecodedRows, decode_batches
from odradek.spark_jobs.scan.segment_reader import (
    OFFSET_MAX,
    DamagedRange,
    LegacyBatchGroup,
    SegmentRange,
    SegmentReader,
)
from odradek.spark_jobs.scan.varints import BoolArray, Int64Array
from odradek.storage.offset_index import RELATIVE_OFFSET_MAX

#: Type of a control batch; other batches have NO_MARKER.
NO_MARKER, COMMIT, ABORT = 0, 1, 2

BATCH_ROW_DTYPE = np.dtype(
    [
        ("position", "i8"),
        ("size", "i8"),
        ("base_offset", "i8"),
        ("last_offset", "i8"),
        ("max_timestamp", "i8"),
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("base_sequence", "i4"),
        ("leader_epoch", "i4"),
        ("attributes", "i2"),
        ("checksum", "u4"),
        ("count", "i4"),
        ("magic", "i1"),
        ("marker", "i1"),
    ]
)
_COPIED_FIELDS = (
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "leader_epoch",
    "attributes",
    "checksum",
    "count",
    "magic",
)

BatchRows = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class SegmentBatches:
    """The valid batches of a segment, and its damaged ranges."""

    segment: Segment
    rows: BatchRows
    damaged_ranges: tuple[DamagedRange, ...]  # without a valid batch
    unreadable_batches: tuple[DamagedRange, ...]  # right checksum, but undecodable records
    next_offset: int  # after the last batch

    @property
    def is_sealed(self) -> bool:
        """Whether the segment is complete: no batch will be appended to it."""
        is_swap = split_path(self.segment.path)[1].endswith(".swap")
        return is_swap or self.segment.next_base_offset is not None

    def is_damaged_at(self, positions: Int64Array) -> BoolArray:
        """Return for each position whether it is in a damaged range."""
        is_damaged = np.zeros(len(positions), dtype=np.bool_)
        for damaged in self.damaged_ranges:
            end = damaged.end_position
            if end >= self.segment.size_bytes:
                end = OFFSET_MAX  # batches after the damage may be lost as well
            is_damaged |= (positions >= damaged.position) & (positions < end)
        return is_damaged


def read_segment(
    file: File, log: PartitionLog, segment: Segment, expected_end_offset: int | None
) -> SegmentBatches:
    """``expected_end_offset``: all offsets below it are known to have been written."""
    segment_range = SegmentRange(
        0,
        file.size_bytes,
        segment.base_offset,
        offset_max=min(segment.offset_max, segment.base_offset + RELATIVE_OFFSET_MAX),
        is_last=segment.next_base_offset is None,
        high_watermark=expected_end_offset,
    )
    spec = ReadSpec(log.topic, log.partition, segment.path, ("headers",), 0, OFFSET_MAX)
    reader = SegmentReader(file, segment_range)
    rows, damaged_ranges, unreadable = [], [], []
    next_offset = segment.base_offset
    for item in reader:
        if isinstance(item, DamagedRange):
            damaged_ranges.append(item)
        elif isinstance(item, BatchGroup):
            rows.append(_group_rows(item))
            unreadable += _collect_damaged_ranges(decode_batches(item, spec))
        else:
            rows.append(_legacy_rows(item, next_offset))
            unreadable += _collect_damaged_ranges(decode_legacy_batches(item, spec))
        next_offset = reader.next_offset
    table = np.concatenate(rows) if rows else np.empty(0, dtype=BATCH_ROW_DTYPE)
    return SegmentBatches(
        segment, table, tuple(damaged_ranges), tuple(unreadable), reader.next_offset
    )


def _collect_damaged_ranges(decoded: DecodedRows) -> list[DamagedRange]:
    return [item for item in decoded if isinstance(item, DamagedRange)]


def _group_rows(group: BatchGroup) -> BatchRows:
    rows = np.zeros(len(group), dtype=BATCH_ROW_DTYPE)
    for name in _COPIED_FIELDS:
        rows[name] = group.headers[name]
    rows["position"] = group.position + group.starts
    rows["size"] = group.sizes
    rows["base_offset"] = group.field("base_offset")
    rows["last_offset"] = group.last_offsets
    for at in np.flatnonzero(group.has_flag(CONTROL_FLAG)).tolist():
        rows["marker"][at] = _marker_type(group, at)
    return rows


def _marker_type(group: BatchGroup, index: int) -> int:
    try:
        records = list(RecordBatch(group.buffer.data, int(group.starts[index])))
        markers = [marker for record in records if (marker := parse_end_transaction_marker(record))]
    except CorruptMessage:  # reported as an unreadable batch
        return NO_MARKER
    if not markers:
        return NO_MARKER
    return COMMIT if markers[0].is_commit else ABORT


def _legacy_rows(legacy_group: LegacyBatchGroup, next_offset: int) -> BatchRows:
    rows = np.zeros(len(legacy_group.batches), dtype=BATCH_ROW_DTYPE)
    for row, batch in zip(rows, legacy_group.batches, strict=True):
        row["position"] = legacy_group.position + batch.position
        row["size"] = batch.size_bytes
        row["base_offset"], row["last_offset"] = next_offset, batch.last_offset
        row["max_timestamp"] = batch.max_timestamp
        row["producer_id"] = row["producer_epoch"] = row["base_sequence"] = -1
        row["leader_epoch"] = -1
        row["checksum"] = batch.checksum
        row["magic"] = batch.magic
        next_offset = batch.next_offset
    return rows


class LostOffsets:
    """Offsets of damaged or missing batches, about which the checks can say nothing."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        """Each range is from its first offset (inclusive) to its second (exclusive)."""
        self.ranges = sorted(ranges)

    def contains(self, offset: int) -> bool:
        return any(start <= offset < end for start, end in self.ranges)

    def contains_each(self, offsets: Int64Array) -> BoolArray:
        is_lost = np.zeros(len(offsets), dtype=np.bool_)
        for start, end in self.ranges:
            is_lost |= (offsets >= start) & (offsets < end)
        return is_lost

    def overlaps(self, start_offset: int, end_offset: int) -> bool:
        return any(first < end_offset and start_offset < last for first, last in self.ranges)


def find_lost_ranges(batches: SegmentBatches) -> list[tuple[int, int]]:
    """Return the offsets of damaged ranges, each up to the next valid batch or segment."""
    positions, offsets = batches.rows["position"], batches.rows["base_offset"]
    ranges = []
    for damaged in batches.damaged_ranges:
        following = int(np.searchsorted(positions, damaged.end_position))
        if following < len(positions):
            end = int(offsets[following])
        else:
            end = batches.segment.next_base_offset or OFFSET_MAX
        ranges.append((damaged.first_offset, end))
    return ranges


def find_row(rows: BatchRows, offset: int) -> np.void | None:
    """Return the batch that covers an offset, or None."""
    at = int(np.searchsorted(rows["last_offset"], offset))
    if at == len(rows) or rows["base_offset"][at] > offset:
        return None
    row: np.void = rows[at]
    return row
