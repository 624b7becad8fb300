"""Do the offset index and the time index of a segment say the truth about its batches?

    .index       an entry leads to the beginning of a batch, and its offset is in what begins there
                 and ends before the next entry
    .timeindex   an entry's timestamp is the largest of the batch that holds its offset, and none
                 before that batch is larger; the last entry of a sealed segment has the largest

Each entry is compared with the batches by itself, so that the wrong one is named and not the one
after it; those that are right must ascend.  (Which offset of a batch an entry names differs between
releases, leaders and followers: all that lead a search right are in order.)

Zeros at the end are room ahead, of an index that is open.  What leads into damage says nothing.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from odradek.spark_jobs.audit.batch_rows import Lost, SegmentBatches
from odradek.spark_jobs.audit.findings import Problem
from odradek.spark_jobs.scan.varints import Flags, Integers

_OFFSET_ENTRY = np.dtype([("offset", ">u4"), ("position", ">u4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">u4")])

NO_TIMESTAMP = -1


def offset_index_problems(content: bytes, batches: SegmentBatches, lost: Lost) -> Iterator[Problem]:
    found = _whole_entries(content, _OFFSET_ENTRY)
    yield from _end_problems(content, found, batches)
    rows = batches.rows
    offsets = found["offset"].astype(np.int64) + batches.segment.base_offset
    positions = found["position"].astype(np.int64)
    at = np.searchsorted(rows["position"], positions)
    begins = _element(rows["position"], at, -1) == positions
    firsts = _element(rows["base_offset"], at, 0)
    lasts = _last_before_next(batches, positions, begins)
    is_right = begins & (firsts <= offsets) & (offsets <= lasts)
    is_known = ~batches.is_flawed_at(positions) & ~lost.have(offsets)
    for slot in np.flatnonzero(is_known & ~is_right).tolist():
        offset, position = int(offsets[slot]), int(positions[slot])
        if not begins[slot]:
            why = f"no batch begins at position {position}"
        elif offset < firsts[slot]:
            why = f"at position {position} begins offset {firsts[slot]}"
        else:
            why = f"what begins at position {position} ends with offset {lasts[slot]}"
        yield Problem(slot * found.itemsize, offset, f"entry {slot}: {why}")
    yield from _descending(found, is_known & is_right, offsets, positions)


def _last_before_next(batches: SegmentBatches, positions: Integers, begins: Flags) -> Integers:
    """Of each entry: the last offset of what lies before the next one that leads to a batch."""
    rows = batches.rows
    lasts = np.full(len(positions), batches.next_offset - 1, dtype=np.int64)
    leading = np.flatnonzero(begins)
    following = positions[leading[1:]]
    before = np.searchsorted(rows["position"], following) - 1
    is_after = following > positions[leading[:-1]]
    lasts[leading[:-1][is_after]] = rows["last_offset"][before[is_after]]
    return lasts


def time_index_problems(content: bytes, batches: SegmentBatches, lost: Lost) -> Iterator[Problem]:
    found = _whole_entries(content, _TIME_ENTRY)
    yield from _end_problems(content, found, batches)
    rows = batches.rows
    offsets = found["offset"].astype(np.int64) + batches.segment.base_offset
    timestamps = found["timestamp"].astype(np.int64)
    at = np.searchsorted(rows["last_offset"], offsets)
    holds = (at < len(rows)) & (_element(rows["base_offset"], at, 0) <= offsets)
    largest = _element(rows["max_timestamp"], at, NO_TIMESTAMP)
    so_far = np.maximum.accumulate(rows["max_timestamp"])
    before = np.where(at > 0, _element(so_far, at - 1, NO_TIMESTAMP), NO_TIMESTAMP)
    is_right = holds & (largest == timestamps) & (before <= timestamps)
    is_known = ~lost.have(offsets)
    for slot in np.flatnonzero(is_known & ~is_right).tolist():
        offset, timestamp = int(offsets[slot]), int(timestamps[slot])
        if not holds[slot]:
            why = "no batch holds the offset"
        elif largest[slot] != timestamp:
            why = f"timestamp {timestamp}, but the largest of the batch is {largest[slot]}"
        else:
            why = f"timestamp {timestamp}, but a batch before it has {before[slot]}"
        yield Problem(slot * found.itemsize, offset, f"entry {slot}: {why}")
    yield from _descending(found, is_known & is_right, timestamps)
    if is_right.all():  # a wrong one has been told of, and may be the last
        yield from _missing_last(timestamps, batches, lost)


def _missing_last(timestamps: Integers, batches: SegmentBatches, lost: Lost) -> Iterator[Problem]:
    """A sealed segment says at the end of its time index how young it is."""
    segment = batches.segment
    if not batches.is_sealed or lost.touches(segment.base_offset, segment.offset_max):
        return
    largest = int(batches.rows["max_timestamp"].max(initial=NO_TIMESTAMP))
    last = int(timestamps[-1]) if len(timestamps) else NO_TIMESTAMP
    if last != largest:
        position = max(0, len(timestamps) - 1) * _TIME_ENTRY.itemsize
        why = f"timestamp {last}, but the largest of the sealed segment is {largest}"
        yield Problem(position, None, f"the last entry: {why}")


def _whole_entries(content: bytes, layout: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """Up to the room at the end; a lone entry of zeros is one, for a record from 1970."""
    entry_bytes = layout.itemsize
    whole = content[: len(content) - len(content) % entry_bytes]
    count = -(-len(whole.rstrip(b"\0")) // entry_bytes)
    if len(whole) == entry_bytes:
        count = 1
    return np.frombuffer(whole, dtype=layout, count=count)


def _end_problems(
    content: bytes, found: npt.NDArray[np.void], batches: SegmentBatches
) -> Iterator[Problem]:
    cut = len(content) % found.itemsize
    if batches.is_sealed and found.nbytes < len(content) - cut:
        what = "zeros at the end: the index of a sealed segment was not closed"
        yield Problem(found.nbytes, None, what)
    if cut:
        yield Problem(len(content) - cut, None, f"an entry is cut short after {cut} bytes")


def _element(values: Integers, at: Integers, otherwise: int) -> Integers:
    """The values at these places; ``otherwise`` beyond the end."""
    padded = np.append(values, otherwise)
    chosen: Integers = padded[np.minimum(at, len(values))]
    return chosen


def _descending(
    found: npt.NDArray[np.void], is_right: Flags, *columns: Integers
) -> Iterator[Problem]:
    """Those that do not ascend though each by itself is right."""
    slots = np.flatnonzero(is_right)
    wrong = np.zeros(max(0, len(slots) - 1), dtype=np.bool_)
    for column in columns:
        wrong |= column[slots][1:] <= column[slots][:-1]
    for slot in slots[1:][wrong].tolist():
        yield Problem(slot * found.itemsize, None, f"entry {slot}: no larger than the one before")
