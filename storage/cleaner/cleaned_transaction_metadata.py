"""Which batches belong to aborted transactions, and which markers have outlived their data?

Compaction tells every batch it reads, in order.  An aborted transaction is known by its entry in a
transaction index, and lasts from its first offset to the abort marker of its producer; a batch in
between is of no use to anyone.  Every other transaction whose data is read is taken for committed:
compaction stays before the first that is undecided.

A marker is needed as long as data of its transaction is in the log: readers would take the data of
an aborted transaction for open, or for part of the next.  When none was read before it, the marker
may go.  The entry in the index, too, is kept only if data was read.

An abort marker after records of its producer that no entry calls aborted shows that an index has
lost an entry.  Going on would make aborted records visible for good, so that is a CorruptMessage.

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
    """``is_done``: no data of its transaction is left.  ``aborted``: what the index must keep."""

    can_discard: bool
    aborted_txn: AbortedTxn | None = None


class CleanedTransactionMetadata:
    """The transactions in which the batches read so far are."""

    def __init__(self, aborted_txns: Iterable[AbortedTxn]) -> None:
        """``aborted``: all that reach into what will be read, from whichever index."""
        self._upcoming_aborted_txns = deque(
            sorted(set(aborted_txns), key=lambda entry: entry.first_offset)
        )
        self._ongoing_aborted_txns: dict[int, AbortedTxn] = {}
        self._producers_with_aborted_batches: set[int] = set()
        self._producers_with_committed_batches: set[int] = set()
        self._producers_with_committed_records: set[int] = set()

    def on_batch_read(self, batch: RecordBatch) -> bool:
        """Whether a batch that is no control batch belongs to an aborted transaction."""
        if self._upcoming_aborted_txns:
            self._consume_aborted_txns_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        entry = self._ongoing_aborted_txns.get(batch.producer_id)
        # An entry that has lost its marker must not reach into the next transaction.
        if entry is not None and batch.last_offset < entry.last_offset:
            self._producers_with_aborted_batches.add(batch.producer_id)
            return True
        self._producers_with_committed_batches.add(batch.producer_id)
        if batch.count:
            self._producers_with_committed_records.add(batch.producer_id)
        return False

    def on_control_batch_read(self, batch: RecordBatch) -> MarkerRetention:
        """A control batch has been read: what may become of it."""
        if self._upcoming_aborted_txns:
            self._consume_aborted_txns_up_to(batch.last_offset)
        record = next(batch.records(), None)
        if record is None:
            # Emptied by an earlier compaction, and kept for its producer's epoch.
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
        # Batches without records need no entry, but a marker.
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
