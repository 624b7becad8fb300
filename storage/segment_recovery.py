"""Reading a segment again after an unclean stop: what is whole stays, the rest is cut off.

Every batch is checked: it must be complete, its checksum right, and its offsets, which the checksum
does not cover, beyond those before it and near enough to the segment's base.  The file is cut at
the first that is not.  The three indexes are written anew from what is left, leader epochs and
producers' states learn from it.

Owner: whoever recovers the log; nobody else has it open.
"""

from __future__ import annotations

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage import files
from odradek.storage.leader_epochs import LeaderEpochs
from odradek.storage.log_segment import LogSegment
from odradek.storage.paths import Content
from odradek.storage.producers.append import AppendOrigin
from odradek.storage.producers.state import ProducerStates
from odradek.storage.transaction_index import AbortedTransaction, TransactionIndex

READ_BYTES = 1024 * 1024


class SegmentRecovery:
    """One pass over one segment.  ``producers`` must know everything before its base offset."""

    def __init__(
        self, segment: LogSegment, producers: ProducerStates, epochs: LeaderEpochs
    ) -> None:
        self.segment = segment
        self._producers = producers
        self._epochs = epochs
        self.next_offset = segment.base_offset
        self.valid_bytes = 0
        self.damage: CorruptMessage | None = None

    def run(self) -> None:
        """Read the segment; what is found stands in ``valid_bytes`` and ``damage``."""
        segment = self.segment
        segment.reset_indexes()
        segment.transaction_index.reset()
        try:
            for position, batch in segment.batches():
                self._take(position, batch)
        except CorruptMessage as damage:
            self.damage = damage
        if self.valid_bytes:
            self._producers.advance(self.next_offset)

    def cut(self) -> int:
        """Remove what is not valid; how many bytes.  Later segments must be gone by then."""
        segment = self.segment
        removed = segment.size_bytes - self.valid_bytes
        if removed:
            # Synced, as what is appended next must not end where an old batch happens to begin.
            files.truncate(segment.path(Content.BATCHES), self.valid_bytes)
            files.sync_path(segment.path(Content.BATCHES))
        segment.recovered(size_bytes=self.valid_bytes)
        return removed

    def _take(self, position: int, batch: AnyBatch) -> None:
        segment = self.segment
        batch.check_crc()
        last_offset = batch.last_offset
        # An old wrapper would have to be unpacked to tell its first offset.
        first_offset = batch.base_offset if isinstance(batch, RecordBatch) else last_offset
        if first_offset < self.next_offset or last_offset > segment.offset_max:
            raise CorruptMessage(f"{batch} at {position}, where {self.next_offset} is next")
        if batch.producer_id >= 0:
            learn(batch, self._producers, segment.transaction_index)
        learn_epoch(batch, self._epochs)
        size_bytes = batch.size_bytes
        segment.note(position, size_bytes, last_offset, batch.max_timestamp)
        self.next_offset = last_offset + 1
        self.valid_bytes = position + size_bytes


def learn_epoch(batch: AnyBatch, epochs: LeaderEpochs) -> None:
    """Take the epoch of a batch that is in the log into account.

    What is known of it already stays: compaction may have removed the batch that it began with.
    What contradicts it is of batches that are no longer there.
    """
    epoch, offset = batch.partition_leader_epoch, batch.base_offset
    if epoch == epochs.latest_epoch and offset >= epochs.latest_start:
        return
    # Below NO_PARTITION_LEADER_EPOCH it is damaged, which the checksum does not show.
    if epoch >= 0 and epochs.epoch_of(offset) != epoch:
        epochs.learn(epoch, start_offset=offset)


def learn(
    batch: AnyBatch,
    producers: ProducerStates,
    index: TransactionIndex | list[AbortedTransaction] | None = None,
) -> None:
    """Take a batch that is in the log into account; what it aborts is noted in ``index``."""
    if batch.producer_id >= 0:
        decision = producers.decide([batch], AppendOrigin.REPLICATION)
        producers.apply(decision)
        for transaction in decision.completed:
            if transaction.is_aborted and index is not None:
                stable = producers.transactions.last_stable_offset_for(transaction)
                producer_id, first_offset, last_offset, _ = transaction
                index.append(AbortedTransaction(producer_id, first_offset, last_offset, stable))
            producers.transactions.complete(transaction)
    producers.advance(batch.next_offset)


def rebuild_transaction_index(
    segment: LogSegment, producers: ProducerStates
) -> CorruptMessage | None:
    """Anew from the batches, up to the first bad one; why it is bad, if there is one.

    ``producers`` must know everything before the segment.
    """
    damage: CorruptMessage | None = None
    aborted: list[AbortedTransaction] = []
    try:
        for _, batch in segment.batches():
            batch.check_crc()
            learn(batch, producers, aborted)
    except CorruptMessage as found:
        damage = found
    # At once, as nobody would notice that half of it is missing.
    segment.transaction_index.replace(aborted)
    return damage


def cut_room_ahead(segment: LogSegment) -> None:
    """Cut off what a sealed segment has left of its preallocated room.

    It was cut when the segment was sealed, but without a sync: a power cut may have undone that,
    before the recovery point too.
    """
    if segment.shape.preallocated_bytes == 0:
        return
    used, end = segment.index.last.position, segment.size_bytes
    for place in segment.places(start=used):
        used = place.end
    descriptor = segment.file.descriptor
    for position in range(used, end, READ_BYTES):
        if any(files.read_at(descriptor, min(READ_BYTES, end - position), position)):
            return
    if used < end:
        files.truncate(segment.path(Content.BATCHES), used)
    segment.abandon()
    segment.size_bytes = used
