"""What a partition should know of its producers, by the plainest means.

Lists are searched from end to end, and all is copied where a snapshot is taken.
"""

from copy import deepcopy
from dataclasses import dataclass, field

from odradek.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from odradek.protocol.records.batch import RecordBatch
from odradek.protocol.records.control_records import parse_end_transaction_marker
from odradek.storage.producer_state.producer_state_entry import BatchMetadata, ProducerStateEntry

SEQUENCES = 2**31

#: Of one producer, to be compared: epochs, timestamp, transaction, batches from the newest on.
Facts = tuple[int, int, int, int | None, list[BatchMetadata]]


@dataclass
class Known:
    """Of one producer; the newest batch is last."""

    epoch: int
    coordinator_epoch: int = -1
    timestamp: int = -1
    transaction: int | None = None
    batches: list[BatchMetadata] = field(default_factory=list)


@dataclass
class Ended:
    first_offset: int
    last_offset: int


class ProducerModel:
    def __init__(self) -> None:
        self.producers: dict[int, Known] = {}
        self.ended: list[Ended] = []
        self.snapshots: dict[int, dict[int, Known]] = {}
        self.snapshot_offset = 0

    def original_of(self, batch: RecordBatch) -> BatchMetadata | None:
        known = self.producers.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            return None
        for appended in known.batches[-5:]:
            first_sequence = (appended.last_sequence - appended.offset_delta) % SEQUENCES
            if batch.base_sequence == first_sequence and batch.count - 1 == appended.offset_delta:
                return appended
        return None

    def refusal_of(self, batch: RecordBatch) -> type[Exception] | None:
        """Of a batch from a client or a marker from a coordinator, which is no retry."""
        known = self.producers.get(batch.producer_id)
        if known is None:
            return None
        if batch.producer_epoch < known.epoch:
            return InvalidProducerEpoch
        if batch.is_control:
            is_old = (
                parse_end_transaction_marker(next(batch.records())).coordinator_epoch
                < known.coordinator_epoch
            )
            return TransactionCoordinatorFenced if is_old else None
        expected = 0
        if batch.producer_epoch == known.epoch and known.batches:
            expected = (known.batches[-1].last_sequence + 1) % SEQUENCES
        if batch.base_sequence != expected:
            return OutOfOrderSequenceNumber
        if known.transaction is not None and not batch.is_transactional:
            return InvalidTxnState
        return None

    def learn(self, batch: RecordBatch) -> None:
        known = self.producers.setdefault(batch.producer_id, Known(batch.producer_epoch))
        if known.epoch != batch.producer_epoch:
            known.epoch, known.batches = batch.producer_epoch, []
        known.timestamp = batch.max_timestamp
        if batch.is_control:
            known.coordinator_epoch = parse_end_transaction_marker(
                next(batch.records())
            ).coordinator_epoch
            if known.transaction is not None:
                self.ended.append(Ended(known.transaction, batch.base_offset))
            known.transaction = None
            return
        known.batches.append(
            BatchMetadata(
                batch.last_sequence, batch.last_offset, batch.count - 1, batch.max_timestamp
            )
        )
        if batch.is_transactional and known.transaction is None:
            known.transaction = batch.base_offset

    def expire(self, *, idle_since_ms: int) -> None:
        self.producers = {
            producer_id: known
            for producer_id, known in self.producers.items()
            if known.timestamp > idle_since_ms or known.transaction is not None
        }

    def forget_ended_before(self, offset: int) -> None:
        self.ended = [ended for ended in self.ended if ended.last_offset >= offset]

    def take_snapshot(self, offset: int) -> None:
        self.snapshots[offset] = deepcopy(self.producers)
        for known in self.snapshots[offset].values():
            known.batches = [
                newest._replace(timestamp=known.timestamp) for newest in known.batches[-1:]
            ]
        self.snapshot_offset = offset

    def keep_snapshots(self, *, start: int, end: int) -> None:
        kept = [offset for offset in self.snapshots if start <= offset <= end]
        self.snapshots = {offset: self.snapshots[offset] for offset in kept}

    def reload(self, *, start: int, idle_since_ms: int) -> int:
        """The offset from which on everything has to be learnt again."""
        self.snapshot_offset = max(self.snapshots, default=start)
        self.producers = deepcopy(self.snapshots.get(self.snapshot_offset, {}))
        self.ended = []
        self.expire(idle_since_ms=idle_since_ms)
        return self.snapshot_offset

    @property
    def first_undecided_offset(self) -> int | None:
        return min((each for each in self._begun() if each is not None), default=None)

    @property
    def first_unstable_offset(self) -> int | None:
        unstable = [ended.first_offset for ended in self.ended]
        unstable += [each for each in self._begun() if each is not None]
        return min(unstable, default=None)

    def _begun(self) -> list[int | None]:
        return [known.transaction for known in self.producers.values()]

    def facts(self) -> dict[int, Facts]:
        return {
            producer_id: (
                known.epoch,
                known.coordinator_epoch,
                known.timestamp,
                known.transaction,
                list(reversed(known.batches[-5:])),
            )
            for producer_id, known in self.producers.items()
        }


def facts_of(state: ProducerStateEntry) -> Facts:
    return (
        state.epoch,
        state.coordinator_epoch,
        state.last_timestamp,
        state.current_txn_first_offset,
        state.batches,
    )
