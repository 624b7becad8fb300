"""Find the aborted and the open transactions of a partition.

A reader at read_committed sees nothing from the last stable offset on: the first offset of the
earliest transaction that has no end below the high watermark.  The transaction index does not show
open transactions, only completed ones.  The newest producer snapshot shows the transactions that
were open at its offset, and the batches after it show the rest.  Without a usable snapshot, all
batches are read.

Aborted transactions come from the transaction indexes, and from the batches that are read anyway.
If an index is invalid, all batches are read.  (A missing index looks the same as one without
aborted transactions; visibility.py detects the difference while it reads.)

Owner: the process that plans the scan.
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
    """A damaged range, which may hide the end of a transaction."""

    segment: Segment
    damaged_range: DamagedRange


@dataclass(slots=True)
class PartitionTransactions:
    """The transactions of a partition that are known up to some offset."""

    aborted: set[AbortedTxn] = field(default_factory=set)
    open_transactions: dict[int, int] = field(default_factory=dict)  # first offset by producer id
    damage: list[SegmentDamage] = field(default_factory=list)

    def last_stable_offset(self, end_offset: int) -> int:
        return min(
            (first for first in self.open_transactions.values() if first < end_offset),
            default=end_offset,
        )


def load_transactions(log: PartitionLog) -> PartitionTransactions:
    """Load the transactions up to the high watermark, or to the log end if that is unknown."""
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
    """Advance the transactions from ``start_offset`` to ``end_offset``."""
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
    """Return None if one of the indexes is invalid."""
    aborted: set[AbortedTxn] = set()
    for segment in log.segments:
        content = read_file(log.file_system, segment.sibling_path(LogFileType.TRANSACTION_INDEX))
        entries = parse_transaction_index(content)
        if entries is None or any(entry.last_offset > segment.offset_max for entry in entries):
            return None
        # A transaction that ended above the high watermark may still end otherwise: it is open.
        aborted |= {_without_last_stable_offset(entry) for entry in entries}
    return aborted


def _without_last_stable_offset(entry: AbortedTxn) -> AbortedTxn:
    """Drop the last stable offset, which differs between writers, so that entries compare equal."""
    return entry._replace(last_stable_offset=-1)


def _load_newest_snapshot(log: PartitionLog, end_offset: int) -> tuple[PartitionTransactions, int]:
    """Return the transactions open at the newest usable snapshot, and its offset."""
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
    """Record the transactions that begin and end in these batches."""
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
    except CorruptMessage:  # the reader of the split reports it
        return False
