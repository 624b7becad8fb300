"""A log that keeps its batches in a list, around the producer state under test.

    log = ProducerLog(directory)
    log.send(batch)                 as a client does: where it went, or where its original is
    log.restart()                   as after a crash: snapshots and batches are all that is left

It appends as a real log does: decide, write, apply, complete, advance.
"""

from dataclasses import dataclass
from pathlib import Path

from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.control_records import EndTransactionMarker, build_marker_batch
from odradek.protocol.records.record import Record
from odradek.protocol.types import TopicPartition
from odradek.storage.producer_state.producer_state_manager import AppendOrigin, ProducerStateManager
from odradek.storage.producer_state.unstable_transactions import CompletedTxn
from odradek.storage.transaction_index import AbortedTxn
from tests.support.batches import batch_of

PARTITION = TopicPartition("orders", 3)
NOON = 1_600_000_000_000


@dataclass
class Settings:
    producer_id_expiration_ms: int = 86_400_000
    transaction_partition_verification_enable: bool = False


def batch_by(
    producer_id: int = 7,
    *,
    epoch: int = 0,
    sequence: int = 0,
    count: int = 1,
    timestamp: int = NOON,
    transactional: bool = False,
) -> RecordBatch:
    records = [Record(number, timestamp, None, b"x", ()) for number in range(count)]
    return RecordBatch(
        batch_of(
            *records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=transactional,
        )
    )


def marker_by(
    producer_id: int = 7,
    *,
    epoch: int = 0,
    is_commit: bool = True,
    coordinator_epoch: int = 0,
    timestamp: int = NOON,
) -> RecordBatch:
    return RecordBatch(
        build_marker_batch(
            EndTransactionMarker(is_commit, coordinator_epoch),
            timestamp=timestamp,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
    )


@dataclass(frozen=True)
class Placed:
    """What a client is told about its batch."""

    first_offset: int
    last_offset: int
    timestamp: int
    is_duplicate: bool = False


class ProducerLog:
    def __init__(self, directory: Path, **settings: int | bool) -> None:
        self.directory = directory
        self.settings = Settings(**settings)
        self.states = ProducerStateManager(PARTITION, directory, self.settings)
        self.batches: list[RecordBatch] = []
        self.aborted: list[AbortedTxn] = []
        self.start_offset = 0

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.start_offset

    def send(self, batch: RecordBatch, origin=AppendOrigin.CLIENT, guard=None) -> Placed:
        """Give it the next offsets and append it, unless it is refused or here already."""
        batch = RecordBatch(bytearray(batch.view))
        batch.assign_offsets(self.end_offset)
        decision = self.states.analyze_and_validate([batch], origin, guard=guard)
        if decision.duplicate_batch is not None:
            original = decision.duplicate_batch
            return Placed(
                original.first_offset,
                original.last_offset,
                original.timestamp,
                is_duplicate=True,
            )
        self._write([batch], decision)
        return Placed(batch.base_offset, batch.last_offset, batch.max_timestamp)

    def end_transaction(self, marker: RecordBatch) -> Placed:
        return self.send(marker, AppendOrigin.COORDINATOR)

    def replicate(self, *batches: RecordBatch) -> None:
        """A set of batches of a leader, with the offsets they have."""
        decision = self.states.analyze_and_validate(batches, AppendOrigin.REPLICATION)
        self._write(batches, decision)

    def _write(self, batches, decision) -> None:
        self.batches += batches
        self.states.update(decision)
        for transaction in decision.completed_txns:
            self._complete(transaction)
        self.states.update_map_end_offset(self.end_offset)

    def _complete(self, transaction: CompletedTxn) -> None:
        stable = self.states.transactions.last_stable_offset_for(transaction)
        if transaction.is_aborted:
            producer_id, first, last, _ = transaction
            self.aborted.append(AbortedTxn(producer_id, first, last, stable))
        self.states.transactions.complete(transaction)

    def restart(self, *, now_ms: int = NOON) -> None:
        self.states = ProducerStateManager(PARTITION, self.directory, self.settings)
        self._reload(now_ms)

    def truncate(self, offset: int, *, now_ms: int = NOON) -> None:
        """Cut at ``offset``, where a batch begins."""
        self.batches = [batch for batch in self.batches if batch.base_offset < offset]
        assert self.end_offset == offset
        self._reload(now_ms)

    def _reload(self, now_ms: int) -> None:
        self.states.truncate_and_reload(start=self.start_offset, end=self.end_offset, now_ms=now_ms)
        known = self.states.map_end_offset
        self.states.replay(
            [batch for batch in self.batches if batch.base_offset >= known],
            end_offset=self.end_offset,
        )
