"""Checks of the offset index and the time index of a segment against its batches.

    .index       the position of an entry is the start of a batch, and its offset is in the batches
                 from there to the next entry
    .timeindex   the timestamp of an entry is the largest of the batch that contains its offset, and
                 no earlier batch has a larger one; the last entry of a sealed segment has the
                 largest timestamp of the segment

Each entry is compared with the batches on its own: the finding names the wrong entry, not the one
after it.  The right entries must ascend.  (Which offset of a batch an entry has differs between
releases, leaders and followers: every offset that leads a lookup to the right place is accepted.)

Zeros at the end of an open index are preallocated space.  Entries that refer to damage are skipped.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from odradek.spark_jobs.audit.batch_rows import LostOffsets, SegmentBatches
from odradek.spark_jobs.audit.findings import Problem
from odradek.spark_jobs.scan.varints import BoolArray, Int64Array

_OFFSET_ENTRY = np.dtype([("offset", ">u4"), ("position", ">u4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">u4")])

NO_TIMESTAMP = -1


def check_offset_index(
    content: bytes, batches: SegmentBatches, lost_offsets: LostOffsets
) -> Iterator[Problem]:
    entries = _parse_entries(content, _OFFSET_ENTRY)
    yield from _check_file_end(content, entries, batches)
    rows = batches.rows
    offsets = entries["offset"].astype(np.int64) + batches.segment.base_offset
    positions = entries["position"].astype(np.int64)
    at = np.searchsorted(rows["position"], positions)
    is_batch_start = _take_or_default(rows["position"], at, -1) == positions
    firsts = _take_or_default(rows["base_offset"], at, 0)
    lasts = _last_offsets_before_next_entry(batches, positions, is_batch_start)
    is_right = is_batch_start & (firsts <= offsets) & (offsets <= lasts)
    is_checked = ~batches.is_damaged_at(positions) & ~lost_offsets.contains_each(offsets)
    for slot in np.flatnonzero(is_checked & ~is_right).tolist():
        offset, position = int(offsets[slot]), int(positions[slot])
        if not is_batch_start[slot]:
            reason = f"no batch starts at position {position}"
        elif offset < firsts[slot]:
            reason = f"the batch at position {position} starts with offset {firsts[slot]}"
        else:
            reason = (
                f"the batches from position {position} to the next entry end with offset "
                f"{lasts[slot]}"
            )
        yield Problem(slot * entries.itemsize, offset, f"entry {slot}: {reason}")
    yield from _check_ascending(entries, is_checked & is_right, offsets, positions)


def _last_offsets_before_next_entry(
    batches: SegmentBatches, positions: Int64Array, is_batch_start: BoolArray
) -> Int64Array:
    """Return for each entry the last offset before the next entry that points to a batch."""
    rows = batches.rows
    lasts = np.full(len(positions), batches.next_offset - 1, dtype=np.int64)
    leading = np.flatnonzero(is_batch_start)
    following = positions[leading[1:]]
    before = np.searchsorted(rows["position"], following) - 1
    is_after = following > positions[leading[:-1]]
    lasts[leading[:-1][is_after]] = rows["last_offset"][before[is_after]]
    return lasts


def check_time_index(
    content: bytes, batches: SegmentBatches, lost_offsets: LostOffsets
) -> Iterator[Problem]:
    entries = _parse_entries(content, _TIME_ENTRY)
    yield from _check_file_end(content, entries, batches)
    rows = batches.rows
    offsets = entries["offset"].astype(np.int64) + batches.segment.base_offset
    timestamps = entries["timestamp"].astype(np.int64)
    at = np.searchsorted(rows["last_offset"], offsets)
    has_batch = (at < len(rows)) & (_take_or_default(rows["base_offset"], at, 0) <= offsets)
    largest = _take_or_default(rows["max_timestamp"], at, NO_TIMESTAMP)
    so_far = np.maximum.accumulate(rows["max_timestamp"])
    before = np.where(at > 0, _take_or_default(so_far, at - 1, NO_TIMESTAMP), NO_TIMESTAMP)
    is_right = has_batch & (largest == timestamps) & (before <= timestamps)
    is_checked = ~lost_offsets.contains_each(offsets)
    for slot in np.flatnonzero(is_checked & ~is_right).tolist():
        offset, timestamp = int(offsets[slot]), int(timestamps[slot])
        if not has_batch[slot]:
            reason = "no batch contains the offset"
        elif largest[slot] != timestamp:
            reason = f"timestamp {timestamp}, but the largest of the batch is {largest[slot]}"
        else:
            reason = f"timestamp {timestamp}, but an earlier batch has {before[slot]}"
        yield Problem(slot * entries.itemsize, offset, f"entry {slot}: {reason}")
    yield from _check_ascending(entries, is_checked & is_right, timestamps)
    if is_right.all():  # a wrong entry is reported above, and may be the last
        yield from _check_last_timestamp(timestamps, batches, lost_offsets)


def _check_last_timestamp(
    timestamps: Int64Array, batches: SegmentBatches, lost_offsets: LostOffsets
) -> Iterator[Problem]:
    """The last entry of a sealed segment must have the largest timestamp of the segment."""
    segment = batches.segment
    if not batches.is_sealed or lost_offsets.overlaps(segment.base_offset, segment.offset_max):
        return
    largest = int(batches.rows["max_timestamp"].max(initial=NO_TIMESTAMP))
    last = int(timestamps[-1]) if len(timestamps) else NO_TIMESTAMP
    if last != largest:
        position = max(0, len(timestamps) - 1) * _TIME_ENTRY.itemsize
        reason = f"timestamp {last}, but the largest of the sealed segment is {largest}"
        yield Problem(position, None, f"last entry: {reason}")


def _parse_entries(content: bytes, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """Parse up to the preallocated zeros.  A single entry of zeros is an entry, as of 1970."""
    entry_bytes = dtype.itemsize
    whole = content[: len(content) - len(content) % entry_bytes]
    count = -(-len(whole.rstrip(b"\0")) // entry_bytes)
    if len(whole) == entry_bytes:
        count = 1
    return np.frombuffer(whole, dtype=dtype, count=count)


def _check_file_end(
    content: bytes, entries: npt.NDArray[np.void], batches: SegmentBatches
) -> Iterator[Problem]:
    excess = len(content) % entries.itemsize
    if batches.is_sealed and entries.nbytes < len(content) - excess:
        what = "zeros at the end: the index of a sealed segment was not closed"
        yield Problem(entries.nbytes, None, what)
    if excess:
        yield Problem(len(content) - excess, None, f"the last entry has only {excess} bytes")


def _take_or_default(values: Int64Array, indexes: Int64Array, default: int) -> Int64Array:
    """Return the values at the indexes; ``default`` for an index beyond the end."""
    padded = np.append(values, default)
    taken: Int64Array = padded[np.minimum(indexes, len(values))]
    return taken


def _check_ascending(
    entries: npt.NDArray[np.void], is_correct: BoolArray, *columns: Int64Array
) -> Iterator[Problem]:
    """Yield the entries that are right on their own, but not larger than the right one before."""
    slots = np.flatnonzero(is_correct)
    wrong = np.zeros(max(0, len(slots) - 1), dtype=np.bool_)
    for column in columns:
        wrong |= column[slots][1:] <= column[slots][:-1]
    for slot in slots[1:][wrong].tolist():
        yield Problem(slot * entries.itemsize, None, f"entry {slot}: not above the entry before")
