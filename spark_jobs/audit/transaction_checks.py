"""Check of the transaction index of a segment against the markers of its batches.

The batches of a log say where transactions start and end.  The index must have an entry for each
abort marker whose transaction has records in the log.  Each entry must belong to an abort marker.
Its first offset must not be after the first record of the transaction, which would be visible, nor
before the end of the producer's previous transaction, whose records would be hidden.

Compaction may have removed the first records of a transaction, or all: an entry may start before
the remaining records.  Transactions that were open at a damaged range are unknown.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from odradek.protocol.records.batch import TRANSACTIONAL_FLAG
from odradek.spark_jobs.audit.batch_rows import (
    ABORT,
    NO_MARKER,
    BatchRows,
    LostOffsets,
    SegmentBatches,
    find_row,
)
from odradek.spark_jobs.audit.findings import Problem
from odradek.spark_jobs.scan.segment_reader import OFFSET_MAX
from odradek.storage import transaction_index
from odradek.storage.transaction_index import ENTRY, AbortedTxn


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """The marker that ends a transaction."""

    producer_id: int
    offset: int
    is_abort: bool
    first_offset: int | None  # of the transaction; None if none of its records is in the log
    previous_marker_offset: int  # of the producer's previous marker; -1 if there is none


@dataclass(frozen=True, slots=True)
class TransactionHistory:
    """The transactions of a log, according to its batches."""

    transaction_ends: Mapping[int, TransactionEnd]  # by offset
    # First offsets by producer, for each of the snapshot offsets.
    open_transactions_at: Mapping[int, Mapping[int, int]]


def build_transaction_history(
    rows: BatchRows, lost_offsets: LostOffsets, snapshot_offsets: Iterable[int]
) -> TransactionHistory:
    """``snapshot_offsets`` are the keys of ``open_transactions_at``."""
    open_now: dict[int, int] = {}  # first offset, by producer
    last_markers: dict[int, int] = {}  # offset of the last marker, by producer
    transaction_ends: dict[int, TransactionEnd] = {}
    open_at: dict[int, dict[int, int]] = {}
    gaps = [(start, True) for start, _ in lost_offsets.ranges]
    events = sorted([*gaps, *((offset, False) for offset in snapshot_offsets)], reverse=True)

    def process_events_to(offset: int) -> None:
        while events and events[-1][0] <= offset:
            at, is_gap = events.pop()
            if is_gap:
                open_now.clear()  # the gap may have contained markers
            else:
                open_at[at] = dict(open_now)

    # Python's own integers, and only transactional batches, for speed.
    transactional = rows[(rows["attributes"] & TRANSACTIONAL_FLAG) != 0]
    columns = [transactional[name].tolist() for name in ("base_offset", "producer_id", "marker")]
    for offset, producer_id, marker in zip(*columns, strict=True):
        process_events_to(offset)
        if marker == NO_MARKER:
            open_now.setdefault(producer_id, offset)
            continue
        first_offset = open_now.pop(producer_id, None)
        previous = last_markers.get(producer_id, -1)
        transaction_ends[offset] = TransactionEnd(
            producer_id, offset, marker == ABORT, first_offset, previous
        )
        last_markers[producer_id] = offset
    process_events_to(OFFSET_MAX)
    return TransactionHistory(transaction_ends, open_at)


@dataclass(frozen=True, slots=True)
class ReferenceLog:
    """The batches of all segments, since a transaction may span several segments."""

    rows: BatchRows
    lost_offsets: LostOffsets
    history: TransactionHistory
    log_start_offset: int  # transactions before it were deleted

    def find_end_between(self, producer_id: int, start_offset: int, end_offset: int) -> int | None:
        """Return the offset of a marker of the producer between the offsets, or None."""
        for offset, end in self.history.transaction_ends.items():
            if start_offset < offset < end_offset and end.producer_id == producer_id:
                return offset
        return None


@dataclass(frozen=True, slots=True)
class TransactionIndexContent:
    """A transaction index.  Entries added after the batches were read may be ahead of them."""

    content: bytes
    size_before_bytes: int

    def is_new(self, position: int) -> bool:
        return position >= self.size_before_bytes


def check_transaction_index(
    index: TransactionIndexContent, batches: SegmentBatches, reference: ReferenceLog
) -> Iterator[Problem]:
    content = index.content
    excess = len(content) % ENTRY.size
    previous = -1
    indexed = set()
    for slot, (version, *fields) in enumerate(ENTRY.iter_unpack(content[: len(content) - excess])):
        position, entry = slot * ENTRY.size, AbortedTxn(*fields)
        if index.is_new(position) and entry.last_offset >= batches.next_offset:
            continue
        indexed.add(entry.last_offset)
        reason = _check_entry_order(version, entry, previous) or _check_entry(entry, reference)
        if reason is not None:
            yield Problem(position, entry.last_offset, f"entry {slot}: {reason}")
        previous = max(previous, entry.last_offset)
    if excess:
        yield Problem(len(content) - excess, None, f"the last entry has only {excess} bytes")
    for end in _aborts_in_segment(batches, reference.history):
        if end.offset not in indexed:
            reason = f"aborted transaction of producer {end.producer_id} from {end.first_offset}"
            yield Problem(len(content), end.offset, f"missing entry: {reason}")


def _aborts_in_segment(
    batches: SegmentBatches, history: TransactionHistory
) -> Iterator[TransactionEnd]:
    """Yield the abort markers whose transaction has records in the log."""
    markers = batches.rows["base_offset"][batches.rows["marker"] == ABORT]
    for offset in markers.tolist():
        end = history.transaction_ends.get(offset)
        if end is not None and end.first_offset is not None:
            yield end


def _check_entry_order(version: int, entry: AbortedTxn, previous_last_offset: int) -> str | None:
    if version != transaction_index.VERSION:
        return f"unknown version {version}"
    if entry.last_offset <= previous_last_offset:
        return f"last offset {entry.last_offset} is not above that of the entry before"
    return None


def _check_entry(entry: AbortedTxn, reference: ReferenceLog) -> str | None:
    if reference.lost_offsets.contains(entry.last_offset):
        return None
    end = reference.history.transaction_ends.get(entry.last_offset)
    if end is None or not end.is_abort or end.producer_id != entry.producer_id:
        return f"offset {entry.last_offset} is not an abort marker of producer {entry.producer_id}"
    first = entry.first_offset
    if end.first_offset is not None and first > end.first_offset:
        return f"first offset {first}, but the transaction started at {end.first_offset}"
    if first <= end.previous_marker_offset:
        return f"first offset {first}, but the one before ended at {end.previous_marker_offset}"
    if first > entry.last_offset:
        return f"first offset {first} is after the last offset"
    row = None if reference.lost_offsets.contains(first) else find_row(reference.rows, first)
    if row is not None and row["producer_id"] != entry.producer_id and first != entry.last_offset:
        return f"first offset {first} is in a batch of another producer"
    return None
