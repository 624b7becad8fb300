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
from odradek.spark_jobs.scan.file_access import read_file, split_path
from odradek.spark_jobs.scan.indexes import parse_transaction_index
from odradek.spark_jobs.scan.lookup import SegmentLookup
from odradek.spark_jobs.scan.segment_reader import (
    OFFSET_MAX,
    DamagedRange,
    SegmentRange,
    SegmentReader,
)
from odradek.storage.paths import LogFileType, parse_file_name
from odradek.storage.producer_state.snapshot import CorruptSnapshot, decode
from odradek.storage.transaction_index import AbortedTxn


class SegmentDamage(NamedTuple):
    """Damage, which may hide the end of a transaction."""

    segment: Segment
    damaged_range: DamagedRange


@dataclass(slots=True)
class PartitionTransactions:
    """Of a partition, as they are known at some offset."""

    aborted: set[AbortedTxn] = field(default_factory=set)
    open_transactions: dict[int, int] = field(default_factory=dict)  # first offsets, by producer
    damage: list[SegmentDamage] = field(default_factory=list)

    def last_stable_offset(self, end_offset: int) -> int:
        return min(
            (first for first in self.open_transactions.values() if first < end_offset),
            default=end_offset,
        )


def load_transactions(log: PartitionLog) -> PartitionTransactions:
    """At the high watermark, or at the end of a log of which it is not known."""
    end_offset = OFFSET_MAX if log.high_watermark is None else log.high_watermark
    indexed_aborted = _read_transaction_indexes(log)
    if indexed_aborted is None:
        transactions, start_offset = PartitionTransactions(), log.log_start_offset
    else:
        transactions, start_offset = _load_newest_snapshot(log, end_offset)
        transactions.aborted |= indexed_aborted
    update_transactions(log, transactions, start_offset=start_offset, end_offset=end_offset)
    return transactions


def update_transactions(
    log: PartitionLog, transactions: PartitionTransactions, *, start_offset: int, end_offset: int
) -> None:
    """From what is known at the one offset to what is known at the other."""
    for segment in log.segments:
        if segment.offset_max < start_offset or segment.base_offset >= end_offset:
            continue
        with log.file_system.open(segment.path) as file:
            start = SegmentLookup(log.file_system, segment, file).find_at_or_before(start_offset)
            segment_range = SegmentRange(
                start.position,
                file.size_bytes,
                start.offset,
                stop_offset=end_offset,
                offset_max=segment.offset_max,
                is_last=segment.next_base_offset is None,
                high_watermark=log.high_watermark,
            )
            for item in SegmentReader(file, segment_range):
                if isinstance(item, BatchGroup):
                    _apply_batches(
                        item.select(item.field("base_offset") >= start_offset), transactions
                    )
                elif isinstance(item, DamagedRange):
                    transactions.damage.append(SegmentDamage(segment, item))


def _read_transaction_indexes(log: PartitionLog) -> set[AbortedTxn] | None:
    """None if one of the indexes makes no sense."""
    aborted: set[AbortedTxn] = set()
    for segment in log.segments:
        content = read_file(log.file_system, segment.sibling_path(LogFileType.TRANSACTION_INDEX))
        entries = parse_transaction_index(content)
        if entries is None or any(entry.last_offset > segment.offset_max for entry in entries):
            return None
        # One that ended beyond the high watermark may yet end otherwise, and counts as open.
        aborted |= {_without_last_stable_offset(entry) for entry in entries}
    return aborted


def _without_last_stable_offset(entry: AbortedTxn) -> AbortedTxn:
    """Without what differs between those who write it, so that each is known once."""
    return entry._replace(last_stable_offset=-1)


def _load_newest_snapshot(log: PartitionLog, end_offset: int) -> tuple[PartitionTransactions, int]:
    """What was open at the offset of the newest snapshot that can be used, and that offset."""
    for path in reversed(log.producer_snapshots):
        name = parse_file_name(split_path(path)[1])
        if name is None or name.offset > end_offset:
            continue
        try:
            states = decode(read_file(log.file_system, path) or b"", path=Path(path))
        except CorruptSnapshot:
            continue
        first_offsets = {
            producer_id: state.current_txn_first_offset
            for producer_id, state in states.items()
            if state.current_txn_first_offset is not None
        }
        return PartitionTransactions(open_transactions=first_offsets), name.offset
    return PartitionTransactions(), log.log_start_offset


def _apply_batches(group: BatchGroup, transactions: PartitionTransactions) -> None:
    """Note what begins and ends in these batches."""
    is_control = group.has_flag(CONTROL_FLAG)
    producer_ids, offsets = group.field("producer_id"), group.field("base_offset")
    for index in np.flatnonzero(group.has_flag(TRANSACTIONAL_FLAG)).tolist():
        producer_id, offset = int(producer_ids[index]), int(offsets[index])
        if not is_control[index]:
            transactions.open_transactions.setdefault(producer_id, offset)
            continue
        first_offset = transactions.open_transactions.pop(producer_id, None)
        if first_offset is not None and _is_abort_marker(group, index):
            transactions.aborted.add(AbortedTxn(producer_id, first_offset, offset, -1))


def _is_abort_marker(group: BatchGroup, index: int) -> bool:
    try:
        return any(not marker.is_commit for marker in group.markers(index))
    except CorruptMessage:  # whoever reads it will be told
        return False
