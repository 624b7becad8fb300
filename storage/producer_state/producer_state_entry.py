"""The state of one producer in a partition, and the checks of a batch against it.

Kafka: ProducerStateEntry, BatchMetadata, and the checks of ProducerAppendInfo.

An entry is immutable: appending a batch gives a new entry.  So a set of batches is validated, and
the resulting entries are computed, before anything is written.

    check_*              raise if a batch is not allowed; the append origin decides which are called
    ProducerStateEntry   its ``with_batch`` and ``with_end_txn_marker`` cannot fail

An entry keeps the last five batches of its producer to recognise a retry: an idempotent client has
at most five requests in flight.  The batches are packed, newest first, because a partition may have
100,000 producers: 24 bytes per batch, where five tuples of integers would take 200.

    last sequence  int32
    last offset    int64
    offset delta   int32    last offset minus first
    timestamp      int64    the largest in the batch

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from struct import Struct
from typing import NamedTuple

from odradek.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from odradek.protocol.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    SEQUENCE_MAX,
    TRANSACTIONAL_FLAG,
    increment_sequence,
)
from odradek.protocol.records.control_records import (
    EndTransactionMarker,
    parse_end_transaction_marker,
)
from odradek.protocol.records.record import NO_TIMESTAMP
from odradek.protocol.records.record_set import AnyBatch
from odradek.protocol.types import TopicPartition

NUM_BATCHES_TO_RETAIN = 5
NO_COORDINATOR_EPOCH = -1

PACKED_BATCH = Struct(">iqiq")
_pack_batch = PACKED_BATCH.pack
#: Unpackers of the last sequences, keyed by the length of the packed batches.
_unpack_last_sequences = {
    count * PACKED_BATCH.size: Struct(">" + count * "i20x").unpack_from
    for count in range(1, NUM_BATCHES_TO_RETAIN + 1)
}
_OLDER_BATCHES_BYTES_MAX = (NUM_BATCHES_TO_RETAIN - 1) * PACKED_BATCH.size


class AppendOrigin(Enum):
    """The source of an append; it decides which checks apply."""

    CLIENT = "a producer: epoch, sequence and transaction are checked"
    COORDINATOR = "a local coordinator: epoch and transaction are checked, it has no sequence"
    REPLICATION = "the leader, or a replay of the local log: nothing is checked"


class BatchMetadata(NamedTuple):
    """One of the last batches of a producer.  Kafka: BatchMetadata."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        first = self.last_sequence - self.offset_delta
        return first if first >= 0 else first + SEQUENCE_MAX + 1

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


# Not frozen, because that would double the time to create an entry.
@dataclass(slots=True)
class ProducerStateEntry:
    """The state of one producer in a partition.  Treat as immutable."""

    epoch: int
    coordinator_epoch: int  # of the last transaction marker
    last_timestamp: int
    current_txn_first_offset: int | None  # None: no transaction is open
    packed_batches: bytes

    @property
    def batches(self) -> list[BatchMetadata]:
        """The last batches of this epoch, newest first."""
        return [BatchMetadata(*fields) for fields in PACKED_BATCH.iter_unpack(self.packed_batches)]

    @property
    def last_batch(self) -> BatchMetadata | None:
        packed = self.packed_batches
        return BatchMetadata(*PACKED_BATCH.unpack_from(packed)) if packed else None

    @property
    def last_sequence(self) -> int:
        packed = self.packed_batches
        return _unpack_last_sequences[len(packed)](packed)[0] if packed else NO_SEQUENCE

    def is_in_transaction(self, epoch: int) -> bool:
        return self.current_txn_first_offset is not None and self.epoch == epoch

    def is_next_in_sequence(self, batch: AnyBatch) -> bool:
        """Return whether all checks can be skipped.

        This is the case if ``batch`` is next in sequence, and is transactional exactly if a
        transaction is open.  The result is False if sequences went backwards, because the batch
        may then be a retry: at the wrap-around, and after an expired producer restarted at another
        sequence.
        """
        packed = self.packed_batches
        if not packed or batch.producer_epoch != self.epoch:
            return False
        last_sequences = _unpack_last_sequences[len(packed)](packed)
        last = last_sequences[0]
        if batch.base_sequence != last + 1 or last != max(last_sequences):
            return False
        is_open = self.current_txn_first_offset is not None
        return is_open == (batch.attributes & TRANSACTIONAL_FLAG != 0)

    def find_duplicate_batch(self, batch: AnyBatch) -> BatchMetadata | None:
        """Return the batch that ``batch`` repeats; the oldest, if the log has it twice."""
        if batch.producer_epoch != self.epoch:
            return None
        first, last = batch.base_sequence, batch.last_sequence
        for appended in reversed(self.batches):
            if appended.last_sequence == last and appended.first_sequence == first:
                return appended
        return None

    def with_batch(self, batch: AnyBatch) -> ProducerStateEntry:
        """Return the entry after the data batch ``batch`` is appended."""
        epoch, timestamp = batch.producer_epoch, batch.max_timestamp
        first_offset, last_offset = batch.base_offset, batch.last_offset
        packed = _pack_batch(
            batch.last_sequence, last_offset, last_offset - first_offset, timestamp
        )
        if epoch == self.epoch:
            packed += self.packed_batches[:_OLDER_BATCHES_BYTES_MAX]
        transaction = self.current_txn_first_offset
        if transaction is None and batch.attributes & TRANSACTIONAL_FLAG:
            transaction = first_offset
        return ProducerStateEntry(epoch, self.coordinator_epoch, timestamp, transaction, packed)

    def with_end_txn_marker(self, marker: MarkerBatch) -> ProducerStateEntry:
        """Return the entry after the marker is appended, which ends an open transaction."""
        return ProducerStateEntry(
            epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            last_timestamp=marker.timestamp,
            current_txn_first_offset=None,
            packed_batches=self.packed_batches if marker.producer_epoch == self.epoch else b"",
        )


UNKNOWN_PRODUCER = ProducerStateEntry(
    NO_PRODUCER_EPOCH, NO_COORDINATOR_EPOCH, NO_TIMESTAMP, None, b""
)


class MarkerBatch(NamedTuple):
    """The transaction marker in a control batch."""

    producer_id: int
    producer_epoch: int
    offset: int
    timestamp: int
    coordinator_epoch: int
    is_commit: bool


def read_marker_batch(batch: AnyBatch) -> MarkerBatch | None:
    """Return None if compaction removed the record, or if it is another control record."""
    record = next(batch.records(), None)
    marker: EndTransactionMarker | None = (
        parse_end_transaction_marker(record) if record is not None else None
    )
    if record is None or marker is None:
        return None
    return MarkerBatch(
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        offset=batch.base_offset,
        timestamp=record.timestamp,
        coordinator_epoch=marker.coordinator_epoch,
        is_commit=marker.is_commit,
    )


def check_producer_epoch(
    entry: ProducerStateEntry, batch: AnyBatch | MarkerBatch, partition: TopicPartition
) -> None:
    if batch.producer_epoch < entry.epoch:
        raise InvalidProducerEpoch(
            f"Epoch of producer {batch.producer_id} in {partition} is {batch.producer_epoch}, "
            f"which is smaller than the last seen epoch {entry.epoch}"
        )


def check_sequence(entry: ProducerStateEntry, batch: AnyBatch, partition: TopicPartition) -> None:
    """An unknown producer may start at any sequence, because its older batches may be deleted."""
    if entry.epoch == NO_PRODUCER_EPOCH:
        return
    is_same_epoch = batch.producer_epoch == entry.epoch
    expected = increment_sequence(entry.last_sequence, 1) if is_same_epoch else 0
    if batch.base_sequence != expected:
        epoch = f"epoch {entry.epoch}" if is_same_epoch else f"new epoch {batch.producer_epoch}"
        raise OutOfOrderSequenceNumber(
            f"Out of order sequence number for producer {batch.producer_id} in {partition}: "
            f"{batch.base_sequence} (incoming sequence), but {epoch} expects sequence {expected}"
        )


def check_in_transaction(
    entry: ProducerStateEntry, batch: AnyBatch, partition: TopicPartition
) -> None:
    """While a transaction is open, every batch of its producer must be transactional."""
    if entry.current_txn_first_offset is not None and not batch.is_transactional:
        raise InvalidTxnState(
            f"Expected transactional write from producer {batch.producer_id} in {partition}: "
            f"its transaction is open since offset {entry.current_txn_first_offset}"
        )


def check_coordinator_epoch(
    entry: ProducerStateEntry, marker: MarkerBatch, partition: TopicPartition
) -> None:
    if marker.coordinator_epoch < entry.coordinator_epoch:
        raise TransactionCoordinatorFenced(
            f"Invalid coordinator epoch {marker.coordinator_epoch} for producer "
            f"{marker.producer_id} in {partition}: smaller than the last seen coordinator epoch "
            f"{entry.coordinator_epoch}"
        )
