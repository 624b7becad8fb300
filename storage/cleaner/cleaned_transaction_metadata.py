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
from odradek.protocol.records.control import ControlType, control_type_of
from odradek.storage.transaction_index import AbortedTransaction


class MarkerFate(NamedTuple):
    """``is_done``: no data of its transaction is left.  ``aborted``: what the index must keep."""

    is_done: bool
    aborted: AbortedTransaction | None = None


class TransactionsRead:
    """The transactions in which the batches read so far are."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """``aborted``: all that reach into what will be read, from whichever index."""
        self._ahead = deque(sorted(set(aborted), key=lambda entry: entry.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_aborted_batches: set[int] = set()
        self._with_committed_batches: set[int] = set()
        self._with_committed_records: set[int] = set()

    def is_aborted(self, batch: RecordBatch) -> bool:
        """Whether a batch that is no control batch belongs to an aborted transaction."""
        if self._ahead:
            self._begin_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        entry = self._aborted.get(batch.producer_id)
        # An entry that has lost its marker must not reach into the next transaction.
        if entry is not None and batch.last_offset < entry.last_offset:
            self._with_aborted_batches.add(batch.producer_id)
            return True
        self._with_committed_batches.add(batch.producer_id)
        if batch.count:
            self._with_committed_records.add(batch.producer_id)
        return False

    def end(self, batch: RecordBatch) -> MarkerFate:
        """A control batch has been read: what may become of it."""
        if self._ahead:
            self._begin_up_to(batch.last_offset)
        record = next(batch.records(), None)
        if record is None:
            # Emptied by an earlier compaction, and kept for its producer's epoch.
            return MarkerFate(is_done=True)
        kind = control_type_of(record)
        if kind is ControlType.ABORT:
            return self._end_aborted(batch)
        if kind is ControlType.COMMIT:
            return self._end_committed(batch.producer_id)
        return MarkerFate(is_done=False)

    def _end_aborted(self, batch: RecordBatch) -> MarkerFate:
        producer_id = batch.producer_id
        if producer_id in self._with_committed_records:
            raise CorruptMessage(f"no transaction index tells what {batch} aborts")
        entry = self._aborted.pop(producer_id, None)
        if entry is not None and producer_id in self._with_aborted_batches:
            self._with_aborted_batches.discard(producer_id)
            return MarkerFate(is_done=False, aborted=entry)
        # Batches without records need no entry, but a marker.
        return self._end_committed(producer_id)

    def _end_committed(self, producer_id: int) -> MarkerFate:
        is_done = producer_id not in self._with_committed_batches
        self._with_committed_batches.discard(producer_id)
        self._with_committed_records.discard(producer_id)
        return MarkerFate(is_done)

    def _begin_up_to(self, offset: int) -> None:
        while self._ahead and self._ahead[0].first_offset <= offset:
            entry = self._ahead.popleft()
            self._aborted[entry.producer_id] = entry
            self._with_aborted_batches.discard(entry.producer_id)
