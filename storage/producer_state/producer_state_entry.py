"""May this producer append this batch, and what is known of the producer afterwards?

What is known of one producer never changes: a batch leads from one state to the next.  So a set of
batches is judged, and the states it would lead to are computed, before anything is written.

    check_*           refuse a batch; whether they are asked depends on the origin of the append
    ProducerState     its ``after`` and ``after_marker`` cannot fail

The last five batches of a producer are kept to recognise a retry; no client has more requests in
flight with idempotence on.  They are packed, newest first, because a partition may know 100,000
producers: 24 bytes a batch where five tuples of integers would take 200.

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
#: By the length of so many packed batches.
_unpack_last_sequences = {
    count * PACKED_BATCH.size: Struct(">" + count * "i20x").unpack_from
    for count in range(1, NUM_BATCHES_TO_RETAIN + 1)
}
_OLDER_BATCHES_BYTES_MAX = (NUM_BATCHES_TO_RETAIN - 1) * PACKED_BATCH.size


class AppendOrigin(Enum):
    """Who wants a batch appended, and how far that is believed."""

    CLIENT = "a producer: epoch, sequence and transaction are checked"
    COORDINATOR = "a coordinator of ours: it knows epochs and transactions, but counts no sequence"
    REPLICATION = "the leader, or our own log being read again: what it took is taken"


class BatchMetadata(NamedTuple):
    """One of the last batches of a producer."""

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


# Never changed, yet not frozen: that would double the time it takes to make one.
@dataclass(slots=True)
class ProducerStateEntry:
    """What a partition knows of one producer.  Treat as immutable."""

    epoch: int
    coordinator_epoch: int  # of the coordinator that last ended a transaction
    last_timestamp: int
    current_txn_first_offset: int | None  # None: no transaction is open
    packed_batches: bytes

    @property
    def batches(self) -> list[BatchMetadata]:
        """The last ones of this epoch, newest first."""
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
        """Whether ``batch`` is next in sequence, and in a transaction just if one is open.

        Then all checks are passed by.  Where sequences went back, it is False for the sake of
        retries: at the wrap-around, and after an expired producer did not go on where it was.
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
        """The batch of which ``batch`` is a retry: the first, if the log has it twice."""
        if batch.producer_epoch != self.epoch:
            return None
        first, last = batch.base_sequence, batch.last_sequence
        for appended in reversed(self.batches):
            if appended.last_sequence == last and appended.first_sequence == first:
                return appended
        return None

    def with_batch(self, batch: AnyBatch) -> ProducerStateEntry:
        """The state once ``batch``, which is no control batch, has been appended."""
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
        """The state once the transaction, if one was open, has been ended."""
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
    """What a control batch says about a transaction of its producer."""

    producer_id: int
    producer_epoch: int
    offset: int
    timestamp: int
    coordinator_epoch: int
    is_commit: bool


def read_marker_batch(batch: AnyBatch) -> MarkerBatch | None:
    """None if compaction has emptied the control batch, or if it is about something else."""
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
    """An unknown producer may begin anywhere: what it wrote before may have been deleted."""
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
    """While a transaction is open, all that its producer writes is part of it."""
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
