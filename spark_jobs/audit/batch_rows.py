"""All batches of a log, a row of numbers for each: what everything else is compared with.

A walk over the segments reads every byte once, compares checksums and offsets, and looks into the
records.  What is left of a batch afterwards is its header, some 70 bytes, so that a partition of
100 GB in batches of 16 KB takes half a gigabyte.

A batch of magic 0 or 1 does not say where it begins: right after the one before it, then.

Owner: whoever audits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import CONTROL_FLAG, RecordBatch
from odradek.protocol.records.control import marker_of
from odradek.spark_jobs.scan.batch_group import BatchGroup
from odradek.spark_jobs.scan.catalog import PartitionLog, Segment
from odradek.spark_jobs.scan.decode import Decoded, decode
from odradek.spark_jobs.scan.file_access import File, parted
from odradek.spark_jobs.scan.old_formats import decode_old
from odradek.spark_jobs.scan.varints import Flags, Integers
from odradek.spark_jobs.scan.walk import OFFSET_MAX, Flaw, OldMessages, Stretch, Walk
from odradek.spark_jobs.scan.wishes import Wishes
from odradek.storage.offset_index import RELATIVE_OFFSET_MAX

#: What a control batch says; others say nothing.
NO_MARKER, COMMIT, ABORT = 0, 1, 2

ROW = np.dtype(
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
_SAME_NAMES = (
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

Rows = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class SegmentBatches:
    """The sound batches of a segment, and what is wrong with the others."""

    segment: Segment
    rows: Rows
    flaws: tuple[Flaw, ...]  # no sound batch is there
    unreadable: tuple[Flaw, ...]  # its checksum is right, but not its records
    next_offset: int  # of what would follow

    @property
    def is_sealed(self) -> bool:
        """Whether nothing will be appended any more."""
        is_swap = parted(self.segment.path)[1].endswith(".swap")
        return is_swap or self.segment.next_base_offset is not None

    def is_flawed_at(self, positions: Integers) -> Flags:
        """Of each position: whether no sound batch is there, as was found already."""
        is_flawed = np.zeros(len(positions), dtype=np.bool_)
        for flaw in self.flaws:
            end = flaw.end_position
            if end >= self.segment.size_bytes:
                end = OFFSET_MAX  # whatever was behind the damage is gone, too
            is_flawed |= (positions >= flaw.position) & (positions < end)
        return is_flawed


def read_segment(
    file: File, log: PartitionLog, segment: Segment, complete_to: int | None
) -> SegmentBatches:
    """``complete_to`` is the offset up to which everything is known to have been written."""
    stretch = Stretch(
        0,
        file.size_bytes,
        segment.base_offset,
        offset_max=min(segment.offset_max, segment.base_offset + RELATIVE_OFFSET_MAX),
        is_last=segment.next_base_offset is None,
        high_watermark=complete_to,
    )
    wishes = Wishes(log.topic, log.partition, segment.path, ("headers",), 0, OFFSET_MAX)
    walk = Walk(file, stretch)
    rows, flaws, unreadable = [], [], []
    next_offset = segment.base_offset
    for found in walk:
        if isinstance(found, Flaw):
            flaws.append(found)
        elif isinstance(found, BatchGroup):
            rows.append(_rows_of(found))
            unreadable += _flaws(decode(found, wishes))
        else:
            rows.append(_old_rows(found, next_offset))
            unreadable += _flaws(decode_old(found, wishes))
        next_offset = walk.next_offset
    table = np.concatenate(rows) if rows else np.empty(0, dtype=ROW)
    return SegmentBatches(segment, table, tuple(flaws), tuple(unreadable), walk.next_offset)


def _flaws(decoded: Decoded) -> list[Flaw]:
    return [each for each in decoded if isinstance(each, Flaw)]


def _rows_of(group: BatchGroup) -> Rows:
    rows = np.zeros(len(group), dtype=ROW)
    for name in _SAME_NAMES:
        rows[name] = group.headers[name]
    rows["position"] = group.position + group.starts
    rows["size"] = group.sizes
    rows["base_offset"] = group.field("base_offset")
    rows["last_offset"] = group.last_offsets
    for at in np.flatnonzero(group.has_flag(CONTROL_FLAG)).tolist():
        rows["marker"][at] = _marker(group, at)
    return rows


def _marker(group: BatchGroup, at: int) -> int:
    try:
        records = list(RecordBatch(group.buffer.data, int(group.starts[at])))
        markers = [marker for record in records if (marker := marker_of(record))]
    except CorruptMessage:  # which whoever looks into the records tells
        return NO_MARKER
    if not markers:
        return NO_MARKER
    return COMMIT if markers[0].is_commit else ABORT


def _old_rows(old: OldMessages, next_offset: int) -> Rows:
    rows = np.zeros(len(old.messages), dtype=ROW)
    for row, message in zip(rows, old.messages, strict=True):
        row["position"] = old.position + message.position
        row["size"] = message.size_bytes
        row["base_offset"], row["last_offset"] = next_offset, message.last_offset
        row["max_timestamp"] = message.max_timestamp
        row["producer_id"] = row["producer_epoch"] = row["base_sequence"] = -1
        row["leader_epoch"] = -1
        row["checksum"] = message.checksum
        row["magic"] = message.magic
        next_offset = message.next_offset
    return rows


class Lost:
    """Offsets that are known to be unreadable, so that nothing can be said of them."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        """From the one to before the other."""
        self.ranges = sorted(ranges)

    def has(self, offset: int) -> bool:
        return any(start <= offset < end for start, end in self.ranges)

    def have(self, offsets: Integers) -> Flags:
        is_lost = np.zeros(len(offsets), dtype=np.bool_)
        for start, end in self.ranges:
            is_lost |= (offsets >= start) & (offsets < end)
        return is_lost

    def touches(self, start: int, end: int) -> bool:
        return any(first < end and start < last for first, last in self.ranges)


def lost_in(batches: SegmentBatches) -> list[tuple[int, int]]:
    """Where flaws are, up to the next sound batch, or to where the next segment begins."""
    positions, offsets = batches.rows["position"], batches.rows["base_offset"]
    ranges = []
    for flaw in batches.flaws:
        following = int(np.searchsorted(positions, flaw.end_position))
        if following < len(positions):
            end = int(offsets[following])
        else:
            end = batches.segment.next_base_offset or OFFSET_MAX
        ranges.append((flaw.first_offset, end))
    return ranges


def row_holding(rows: Rows, offset: int) -> np.void | None:
    """The batch that covers an offset, if one does."""
    at = int(np.searchsorted(rows["last_offset"], offset))
    if at == len(rows) or rows["base_offset"][at] > offset:
        return None
    row: np.void = rows[at]
    return row
