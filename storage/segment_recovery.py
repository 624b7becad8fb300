"""Reading a segment again after an unclean stop: what is whole stays, the rest is cut off.

Every batch is checked: it must be complete, its checksum right, its offsets beyond those before it
and near enough to the segment's base.  The file is cut at the first that is not.  The three indexes
are written anew from what is left, leader epochs and producers' states learn from it.

Owner: whoever recovers the log; nobody else has it open.
"""

from __future__ import annotations

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage import files
from odradek.storage.leader_epochs import LeaderEpochs
from odradek.storage.log_segment import LogSegment
from odradek.storage.paths import Content
from odradek.storage.producer_append import AppendOrigin
from odradek.storage.producer_state import ProducerStates
from odradek.storage.segment_list import SegmentList
from odradek.storage.time_index import TimestampOffset
from odradek.storage.transaction_index import AbortedTransaction, TransactionIndex


class SegmentRecovery:
    """One pass over one segment.  ``producers`` must know everything before its base offset."""

    def __init__(
        self, segment: LogSegment, producers: ProducerStates, epochs: LeaderEpochs
    ) -> None:
        self._segment = segment
        self._producers = producers
        self._epochs = epochs
        self._largest = TimestampOffset(-1, segment.base_offset)
        self._since_entry = 0
        self.next_offset = segment.base_offset
        self.valid_bytes = 0
        self.damage: CorruptMessage | None = None

    def run(self) -> None:
        """Read the segment; what is found stands in ``valid_bytes`` and ``damage``."""
        segment = self._segment
        segment.index.reset()
        segment.time_index.reset()
        segment.transaction_index.reset()
        try:
            for position, batch in segment.batches():
                self._take(position, batch)
        except CorruptMessage as damage:
            self.damage = damage

    def cut(self) -> int:
        """Remove what is not valid; how many bytes.  Later segments must be gone by then."""
        segment = self._segment
        removed = segment.size_bytes - self.valid_bytes
        if removed:
            files.truncate(segment.path(Content.BATCHES), self.valid_bytes)
        segment.recovered(size_bytes=self.valid_bytes, largest=self._largest)
        return removed

    def _take(self, position: int, batch: AnyBatch) -> None:
        segment = self._segment
        batch.check_crc()
        last_offset = batch.last_offset
        if last_offset < self.next_offset or not segment.index.can_hold(last_offset):
            raise CorruptMessage(f"{batch} at {position}, where {self.next_offset} is next")
        if batch.max_timestamp > self._largest.timestamp:
            self._largest = TimestampOffset(batch.max_timestamp, last_offset)
        if self._since_entry > segment.shape.index_interval_bytes:
            segment.index.append(offset=last_offset, position=position)
            segment.time_index.append_if_later(
                timestamp=self._largest.timestamp, offset=self._largest.offset
            )
            self._since_entry = 0
        self._since_entry += batch.size_bytes
        if batch.partition_leader_epoch > self._epochs.latest_epoch:
            self._epochs.assign(batch.partition_leader_epoch, start_offset=batch.base_offset)
        learn(batch, self._producers, segment.transaction_index)
        self.next_offset = last_offset + 1
        self.valid_bytes = position + batch.size_bytes


def learn(
    batch: AnyBatch, producers: ProducerStates, index: TransactionIndex | None = None
) -> None:
    """Take a batch that is in the log into account; what it aborts is noted in ``index``."""
    if batch.producer_id >= 0:
        decision = producers.decide([batch], AppendOrigin.REPLICATION)
        producers.apply(decision)
        for transaction in decision.completed:
            if transaction.is_aborted and index is not None:
                stable = producers.last_stable_offset_for(transaction)
                producer_id, first_offset, last_offset, _ = transaction
                index.append(AbortedTransaction(producer_id, first_offset, last_offset, stable))
            producers.complete(transaction)
    producers.advance(batch.next_offset)


def rebuild_transaction_index(
    damaged: LogSegment, segments: SegmentList, producers: ProducerStates
) -> None:
    """Write the index anew from all batches up to the segment's end.

    ``producers`` must be new: transactions that ended here may have begun in any segment before.
    """
    damaged.transaction_index.reset()
    for segment in segments:
        index = damaged.transaction_index if segment is damaged else None
        for _, batch in segment.batches():
            learn(batch, producers, index)
        if segment is damaged:
            return
