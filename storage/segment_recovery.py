"""Recovery of a segment after an unclean shutdown.  Kafka: LogSegment.recover.

Every batch is checked: it must be complete, its checksum must match, and its offsets, which the
checksum does not cover, must follow the offsets before it and fit into the segment's indexes.  The
file is truncated at the first batch that fails.  The three indexes, the leader epochs and the
producer state are rebuilt from the valid batches.

Owner: the thread that recovers the log; no other thread has it open.
"""

from __future__ import annotations

from odradek.protocol.errors import CorruptMessage
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.record_set import AnyBatch
from odradek.storage import files
from odradek.storage.leader_epoch_file_cache import LeaderEpochFileCache
from odradek.storage.log_segment import LogSegment
from odradek.storage.paths import LogFileType
from odradek.storage.producer_state.producer_state_entry import AppendOrigin
from odradek.storage.producer_state.producer_state_manager import ProducerStateManager
from odradek.storage.transaction_index import AbortedTxn, TransactionIndex

READ_BYTES = 1024 * 1024


class SegmentRecovery:
    """One pass over a segment.  The producer state must end at the segment's base offset."""

    def __init__(
        self,
        segment: LogSegment,
        producer_state_manager: ProducerStateManager,
        leader_epoch_cache: LeaderEpochFileCache,
    ) -> None:
        self.segment = segment
        self._producer_state_manager = producer_state_manager
        self._leader_epoch_cache = leader_epoch_cache
        self.next_offset = segment.base_offset
        self.valid_bytes = 0
        self.error: CorruptMessage | None = None

    def run(self) -> None:
        """Read the segment and set ``next_offset``, ``valid_bytes`` and ``error``."""
        segment = self.segment
        segment.reset_indexes()
        segment.transaction_index.reset()
        try:
            for position, batch in segment.batches():
                self._recover_batch(position, batch)
        except CorruptMessage as error:
            self.error = error
        if self.valid_bytes:
            self._producer_state_manager.update_map_end_offset(self.next_offset)

    def truncate(self) -> int:
        """Remove invalid bytes and return their number.  Delete later segments before this."""
        segment = self.segment
        removed = segment.size_bytes - self.valid_bytes
        if removed:
            # Flushed, because the next appended batch must not end where an old batch begins.
            files.truncate(segment.path(LogFileType.LOG), self.valid_bytes)
            files.sync_path(segment.path(LogFileType.LOG))
        segment.finish_recovery(size_bytes=self.valid_bytes)
        return removed

    def _recover_batch(self, position: int, batch: AnyBatch) -> None:
        segment = self.segment
        batch.check_crc()
        last_offset = batch.last_offset
        # The first offset of an old compressed wrapper is only known after decompression.
        first_offset = batch.base_offset if isinstance(batch, RecordBatch) else last_offset
        if first_offset < self.next_offset or last_offset > segment.offset_max:
            raise CorruptMessage(f"{batch} at {position}, where {self.next_offset} is next")
        if batch.producer_id >= 0:
            update_producer_state(batch, self._producer_state_manager, segment.transaction_index)
        update_leader_epochs(batch, self._leader_epoch_cache)
        size_bytes = batch.size_bytes
        segment.index_batch(position, size_bytes, last_offset, batch.max_timestamp)
        self.next_offset = last_offset + 1
        self.valid_bytes = position + size_bytes


def update_leader_epochs(batch: AnyBatch, leader_epoch_cache: LeaderEpochFileCache) -> None:
    """Update the leader epochs with a batch that is in the log.

    An existing entry of the same epoch stays: compaction may have removed its first batch.  Entries
    that contradict the batch are removed: their batches are no longer in the log.
    """
    epoch, offset = batch.partition_leader_epoch, batch.base_offset
    if (
        epoch == leader_epoch_cache.latest_epoch
        and offset >= leader_epoch_cache.latest_start_offset
    ):
        return
    # An epoch below NO_PARTITION_LEADER_EPOCH is corrupt; the checksum does not cover it.
    if epoch >= 0 and leader_epoch_cache.epoch_for_offset(offset) != epoch:
        leader_epoch_cache.reconcile(epoch, start_offset=offset)


def update_producer_state(
    batch: AnyBatch,
    producer_state_manager: ProducerStateManager,
    aborted_txns: TransactionIndex | list[AbortedTxn] | None = None,
) -> None:
    """Replay a batch that is in the log; add aborted transactions to ``aborted_txns``."""
    if batch.producer_id >= 0:
        append_result = producer_state_manager.analyze_and_validate(
            [batch], AppendOrigin.REPLICATION
        )
        producer_state_manager.update(append_result)
        for transaction in append_result.completed_txns:
            if transaction.is_aborted and aborted_txns is not None:
                stable = producer_state_manager.transactions.last_stable_offset_for(transaction)
                producer_id, first_offset, last_offset, _ = transaction
                aborted_txns.append(AbortedTxn(producer_id, first_offset, last_offset, stable))
            producer_state_manager.transactions.complete(transaction)
    producer_state_manager.update_map_end_offset(batch.next_offset)


def rebuild_transaction_index(
    segment: LogSegment, producer_state_manager: ProducerStateManager
) -> CorruptMessage | None:
    """Rebuild the index from the batches; return the error at the first corrupt batch, if any.

    The producer state must end at the segment's base offset.
    """
    error: CorruptMessage | None = None
    aborted: list[AbortedTxn] = []
    try:
        for _, batch in segment.batches():
            batch.check_crc()
            update_producer_state(batch, producer_state_manager, aborted)
    except CorruptMessage as corrupt:
        error = corrupt
    # Replaced in one step, because a missing half would not be detected later.
    segment.transaction_index.replace(aborted)
    return error


def trim_preallocated_space(segment: LogSegment) -> None:
    """Truncate the preallocated space at the end of a sealed segment.

    Sealing truncates it without an fsync, so a power cut may restore it, even before the recovery
    point.
    """
    if segment.config.preallocated_bytes == 0:
        return
    used, end = segment.offset_index.last_entry.position, segment.size_bytes
    for location in segment.batch_locations(start=used):
        used = location.end_position
    descriptor = segment.file.descriptor
    for position in range(used, end, READ_BYTES):
        if any(files.read_at(descriptor, min(READ_BYTES, end - position), position)):
            return
    if used < end:
        files.truncate(segment.path(LogFileType.LOG), used)
    segment.close_handlers()
    segment.size_bytes = used
