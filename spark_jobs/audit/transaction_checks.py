"""Does the transaction index of a segment have the transactions that were aborted in it?

The batches of a log tell when transactions began and how they ended.  For each abort marker there
must be an entry, if records of the transaction are there; each entry must be about an abort marker,
and begin with the transaction, neither after its first record, which would then be shown, nor
before the end of the producer's previous one, which would then be hidden.

Compaction may have removed the first records of a transaction, or all: so an entry may begin
earlier than what is left.  Of what was going on while damaged batches went by, nothing is known.

Owner: none; any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from odradek.protocol.records.batch import TRANSACTIONAL_FLAG
from odradek.spark_jobs.audit.batch_rows import (
    ABORT,
    NO_MARKER,
    Lost,
    Rows,
    SegmentBatches,
    row_holding,
)
from odradek.spark_jobs.audit.findings import Problem
from odradek.spark_jobs.scan.walk import OFFSET_MAX
from odradek.storage import transaction_index
from odradek.storage.transaction_index import ENTRY, AbortedTransaction


@dataclass(frozen=True, slots=True)
class Ending:
    """A marker of a transaction."""

    producer_id: int
    offset: int
    is_abort: bool
    first_offset: int | None  # of the transaction; None if no record of it is left
    previous_offset: int  # of the producer's marker before; -1 if there is none


@dataclass(frozen=True, slots=True)
class History:
    """The transactions of a log, as its batches tell them."""

    endings: Mapping[int, Ending]  # by offset
    open_at: Mapping[int, Mapping[int, int]]  # first offsets by producer, at some offsets


def history(rows: Rows, lost: Lost, moments: Iterable[int]) -> History:
    """``moments`` are the offsets for which ``open_at`` is wanted."""
    open_now: dict[int, int] = {}  # first offsets, by producer
    ended: dict[int, int] = {}  # offsets of markers, by producer
    endings: dict[int, Ending] = {}
    open_at: dict[int, dict[int, int]] = {}
    gaps = [(start, True) for start, _ in lost.ranges]
    events = sorted([*gaps, *((moment, False) for moment in moments)], reverse=True)

    def pass_events(offset: int) -> None:
        while events and events[-1][0] <= offset:
            at, is_gap = events.pop()
            if is_gap:
                open_now.clear()  # markers may have been there
            else:
                open_at[at] = dict(open_now)

    # As Python's own numbers, and only what takes part in transactions.
    taking_part = rows[(rows["attributes"] & TRANSACTIONAL_FLAG) != 0]
    columns = [taking_part[name].tolist() for name in ("base_offset", "producer_id", "marker")]
    for offset, producer_id, marker in zip(*columns, strict=True):
        pass_events(offset)
        if marker == NO_MARKER:
            open_now.setdefault(producer_id, offset)
            continue
        first_offset = open_now.pop(producer_id, None)
        previous = ended.get(producer_id, -1)
        endings[offset] = Ending(producer_id, offset, marker == ABORT, first_offset, previous)
        ended[producer_id] = offset
    pass_events(OFFSET_MAX)
    return History(endings, open_at)


@dataclass(frozen=True, slots=True)
class KnownLog:
    """What there is to compare with: of all segments, since a transaction may go through many."""

    rows: Rows
    lost: Lost
    told: History
    start_offset: int  # what lies before it was deleted, and so were its transactions

    def ended_between(self, producer_id: int, start: int, end: int) -> int | None:
        """The offset of a marker of the producer."""
        for offset, ending in self.told.endings.items():
            if start < offset < end and ending.producer_id == producer_id:
                return offset
        return None


@dataclass(frozen=True, slots=True)
class IndexContent:
    """A transaction index; what was added since the batches were read may be ahead of them."""

    content: bytes
    bytes_before: int

    def is_new(self, position: int) -> bool:
        return position >= self.bytes_before


def transaction_index_problems(
    index: IndexContent, batches: SegmentBatches, log: KnownLog
) -> Iterator[Problem]:
    content = index.content
    cut = len(content) % ENTRY.size
    previous = -1
    noted = set()
    for slot, (version, *fields) in enumerate(ENTRY.iter_unpack(content[: len(content) - cut])):
        position, entry = slot * ENTRY.size, AbortedTransaction(*fields)
        if index.is_new(position) and entry.last_offset >= batches.next_offset:
            continue
        noted.add(entry.last_offset)
        why = _why_out_of_place(version, entry, previous) or _why_wrong(entry, log)
        if why is not None:
            yield Problem(position, entry.last_offset, f"entry {slot}: {why}")
        previous = max(previous, entry.last_offset)
    if cut:
        yield Problem(len(content) - cut, None, f"an entry is cut short after {cut} bytes")
    for ending in _aborts_in(batches, log.told):
        if ending.offset not in noted:
            why = f"the transaction of producer {ending.producer_id} from {ending.first_offset} on"
            yield Problem(len(content), ending.offset, f"{why} was aborted, and is not in it")


def _aborts_in(batches: SegmentBatches, told: History) -> Iterator[Ending]:
    """Those of which records are there."""
    markers = batches.rows["base_offset"][batches.rows["marker"] == ABORT]
    for offset in markers.tolist():
        ending = told.endings.get(offset)
        if ending is not None and ending.first_offset is not None:
            yield ending


def _why_out_of_place(version: int, entry: AbortedTransaction, previous: int) -> str | None:
    if version != transaction_index.VERSION:
        return f"version {version}"
    if entry.last_offset <= previous:
        return f"last offset {entry.last_offset}, which is no larger than the one before"
    return None


def _why_wrong(entry: AbortedTransaction, log: KnownLog) -> str | None:
    if log.lost.has(entry.last_offset):
        return None
    ending = log.told.endings.get(entry.last_offset)
    if ending is None or not ending.is_abort or ending.producer_id != entry.producer_id:
        return f"offset {entry.last_offset} is no abort marker of producer {entry.producer_id}"
    first = entry.first_offset
    if ending.first_offset is not None and first > ending.first_offset:
        return f"from {first} on, but the transaction began at {ending.first_offset}"
    if first <= ending.previous_offset:
        return f"from {first} on, but the one before it ended at {ending.previous_offset}"
    if first > entry.last_offset:
        return f"from {first} on, after its end"
    row = None if log.lost.has(first) else row_holding(log.rows, first)
    if row is not None and row["producer_id"] != entry.producer_id and first != entry.last_offset:
        return f"from {first} on, where a batch of another producer is"
    return None
