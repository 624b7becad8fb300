"""Which transactions were aborted, and which are still open?

A reader at read_committed sees nothing from the last stable offset on: the beginning of the first
transaction whose end is not known below the high watermark.  The transaction index does not tell:
it has only what has ended.  The newest snapshot of the producers tells what was open at its offset,
and the batches from there on tell the rest; without a usable snapshot all batches are looked at.

Aborted transactions come from the transaction indexes, and from the batches that were looked at
anyway.  If an index makes no sense, all batches are looked at.  (That an index is missing cannot be
told from there being none aborted, other than by reading: visibility.py does.)

Owner: whoever plans.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from odradek.spark_jobs.scan.batch_group import BatchGroup
from odradek.spark_jobs.scan.catalog import PartitionLog, Segment
from odradek.spark_jobs.scan.file_access import parted, read_whole
from odradek.spark_jobs.scan.indexes import aborted_transactions
from odradek.spark_jobs.scan.lookup import SegmentLookup
from odradek.spark_jobs.scan.walk import OFFSET_MAX, Flaw, Stretch, Walk
from odradek.storage.paths import Content, file_named
from odradek.storage.producers.snapshot import ProducerSnapshotDamaged, decode
from odradek.storage.transaction_index import AbortedTransaction


class Unread(NamedTuple):
    """Damage, which may hide the end of a transaction."""

    segment: Segment
    flaw: Flaw


@dataclass(slots=True)
class Transactions:
    """Of a partition, as they are known at some offset."""

    aborted: set[AbortedTransaction] = field(default_factory=set)
    open: dict[int, int] = field(default_factory=dict)  # first offsets, by producer
    unread: list[Unread] = field(default_factory=list)

    def last_stable_offset(self, bound: int) -> int:
        return min((first for first in self.open.values() if first < bound), default=bound)


def transactions(log: PartitionLog) -> Transactions:
    """At the high watermark, or at the end of a log of which it is not known."""
    bound = OFFSET_MAX if log.high_watermark is None else log.high_watermark
    indexed = _indexed(log)
    if indexed is None:
        known, start_offset = Transactions(), log.log_start_offset
    else:
        known, start_offset = _at_newest_snapshot(log, bound)
        known.aborted |= indexed
    follow(log, known, start_offset=start_offset, bound=bound)
    return known


def follow(log: PartitionLog, known: Transactions, *, start_offset: int, bound: int) -> None:
    """From what is known at the one offset to what is known at the other."""
    for segment in log.segments:
        if segment.offset_max < start_offset or segment.base_offset >= bound:
            continue
        with log.system.open(segment.path) as file:
            place = SegmentLookup(log.system, segment, file).at_or_before(start_offset)
            stretch = Stretch(
                place.position,
                file.size_bytes,
                place.offset,
                stop_offset=bound,
                offset_max=segment.offset_max,
                is_last=segment.next_base_offset is None,
                high_watermark=log.high_watermark,
            )
            for found in Walk(file, stretch):
                if isinstance(found, BatchGroup):
                    _note(found.kept(found.field("base_offset") >= start_offset), known)
                elif isinstance(found, Flaw):
                    known.unread.append(Unread(segment, found))


def _indexed(log: PartitionLog) -> set[AbortedTransaction] | None:
    """None if one of the indexes makes no sense."""
    found: set[AbortedTransaction] = set()
    for segment in log.segments:
        content = read_whole(log.system, segment.beside(Content.TRANSACTION_INDEX))
        entries = aborted_transactions(content)
        if entries is None or any(entry.last_offset > segment.offset_max for entry in entries):
            return None
        # One that ended beyond the high watermark may yet end otherwise, and counts as open.
        found |= {_plain(entry) for entry in entries}
    return found


def _plain(entry: AbortedTransaction) -> AbortedTransaction:
    """Without what differs between those who write it, so that each is known once."""
    return entry._replace(last_stable_offset=-1)


def _at_newest_snapshot(log: PartitionLog, bound: int) -> tuple[Transactions, int]:
    """What was open at the offset of the newest snapshot that can be used, and that offset."""
    for path in reversed(log.snapshots):
        name = file_named(parted(path)[1])
        if name is None or name.offset > bound:
            continue
        try:
            states = decode(read_whole(log.system, path) or b"", path=Path(path))
        except ProducerSnapshotDamaged:
            continue
        first_offsets = {
            producer_id: state.transaction_first_offset
            for producer_id, state in states.items()
            if state.transaction_first_offset is not None
        }
        return Transactions(open=first_offsets), name.offset
    return Transactions(), log.log_start_offset


def _note(group: BatchGroup, known: Transactions) -> None:
    """Note what begins and ends in these batches."""
    is_control = group.has_flag(CONTROL_FLAG)
    producer_ids, offsets = group.field("producer_id"), group.field("base_offset")
    for at in np.flatnonzero(group.has_flag(TRANSACTIONAL_FLAG)).tolist():
        producer_id, offset = int(producer_ids[at]), int(offsets[at])
        if not is_control[at]:
            known.open.setdefault(producer_id, offset)
            continue
        first_offset = known.open.pop(producer_id, None)
        if first_offset is not None and _aborts(group, at):
            known.aborted.add(AbortedTransaction(producer_id, first_offset, offset, -1))


def _aborts(group: BatchGroup, at: int) -> bool:
    try:
        return any(not marker.is_commit for marker in group.markers(at))
    except CorruptMessage:  # whoever reads it will be told
        return False
