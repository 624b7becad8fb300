"""Finds the batches of aborted transactions, and the markers whose transaction has no data left.

Kafka: CleanedTransactionMetadata.

The cleaner passes every batch that it reads, in offset order.  An aborted transaction has an entry
in a transaction index.  It spans from its first offset to the abort marker of its producer, and the
cleaner drops its batches.  Every other transaction counts as committed: the cleaner never reads
beyond the first undecided transaction.

A marker is needed while data of its transaction is in the log.  Without it, readers would take the
data of an aborted transaction for an open one, or for a part of the next.  If no data was read
before the marker, the marker can be discarded.  The same holds for the index entry.

An abort marker after records of its producer that no index entry covers means that an index has
lost an entry.  Cleaning would then make aborted records visible permanently, so this raises
CorruptMessage.

Owner: the worker process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.control_records import ControlRecordType, parse_control_record_type
from odradek.storage.transaction_index import AbortedTxn


class MarkerRetention(NamedTuple):
    """What to do with a marker.

    ``can_discard`` is set if no data of its transaction is left.  ``aborted_txn`` is the index
    entry to keep, if any.
    """

    can_discard: bool
    aborted_txn: AbortedTxn | None = None


class CleanedTransactionMetadata:
    """The transaction state of the batches read so far."""

    def __init__(self, aborted_txns: Iterable[AbortedTxn]) -> None:
        """``aborted_txns``: all entries that overlap the offsets to be read, from any index."""
        self._upcoming_aborted_txns = deque(
            sorted(set(aborted_txns), key=lambda entry: entry.first_offset)
        )
        self._ongoing_aborted_txns: dict[int, AbortedTxn] = {}
        self._producers_with_aborted_batches: set[int] = set()
        self._producers_with_committed_batches: set[int] = set()
        self._producers_with_committed_records: set[int] = set()

    def on_batch_read(self, batch: RecordBatch) -> bool:
        """Return whether a data batch belongs to an aborted transaction."""
        if self._upcoming_aborted_txns:
            self._consume_aborted_txns_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        entry = self._ongoing_aborted_txns.get(batch.producer_id)
        # An entry whose marker is missing must not cover the next transaction.
        if entry is not None and batch.last_offset < entry.last_offset:
            self._producers_with_aborted_batches.add(batch.producer_id)
            return True
        self._producers_with_committed_batches.add(batch.producer_id)
        if batch.count:
            self._producers_with_committed_records.add(batch.producer_id)
        return False

    def on_control_batch_read(self, batch: RecordBatch) -> MarkerRetention:
        """Process a control batch and return whether it can be discarded."""
        if self._upcoming_aborted_txns:
            self._consume_aborted_txns_up_to(batch.last_offset)
        record = next(batch.records(), None)
        if record is None:
            # An earlier compaction removed the record and kept the batch for the producer epoch.
            return MarkerRetention(can_discard=True)
        record_type = parse_control_record_type(record)
        if record_type is ControlRecordType.ABORT:
            return self._end_aborted(batch)
        if record_type is ControlRecordType.COMMIT:
            return self._end_committed(batch.producer_id)
        return MarkerRetention(can_discard=False)

    def _end_aborted(self, batch: RecordBatch) -> MarkerRetention:
        producer_id = batch.producer_id
        if producer_id in self._producers_with_committed_records:
            raise CorruptMessage(f"no transaction index has an entry for the abort marker {batch}")
        entry = self._ongoing_aborted_txns.pop(producer_id, None)
        if entry is not None and producer_id in self._producers_with_aborted_batches:
            self._producers_with_aborted_batches.discard(producer_id)
            return MarkerRetention(can_discard=False, aborted_txn=entry)
        # Batches without records need a marker, but no index entry.
        return self._end_committed(producer_id)

    def _end_committed(self, producer_id: int) -> MarkerRetention:
        can_discard = producer_id not in self._producers_with_committed_batches
        self._producers_with_committed_batches.discard(producer_id)
        self._producers_with_committed_records.discard(producer_id)
        return MarkerRetention(can_discard)

    def _consume_aborted_txns_up_to(self, offset: int) -> None:
        while self._upcoming_aborted_txns and self._upcoming_aborted_txns[0].first_offset <= offset:
            entry = self._upcoming_aborted_txns.popleft()
            self._ongoing_aborted_txns[entry.producer_id] = entry
            self._producers_with_aborted_batches.discard(entry.producer_id)
