"""The producers of a partition: their sequences, epochs and open transactions.

Kafka: ProducerStateManager and ProducerAppendInfo.

An append calls this module twice, and the transaction index if a transaction is completed:

    append_info = manager.analyze_and_validate(batches, origin)   may raise; changes nothing
    (write the batches, unless they are a retry)
    manager.update(append_info)                                   cannot fail
    for completed_txn in append_info.completed_txns:
        stable = manager.transactions.last_stable_offset_for(completed_txn)
        (if it is aborted, append it to the transaction index with ``stable``)
        manager.transactions.complete(completed_txn)
    manager.update_map_end_offset(end_offset)

If the transaction index cannot be written, ``complete`` is not called and the last stable offset
does not move.  Appending a set of batches gives the same state as appending each batch alone.

Truncation at the end discards the whole state and loads the newest remaining snapshot; the caller
then passes the log from that offset on to ``replay``.  Truncation at the start discards no
producer: a retry of a deleted batch is still a retry.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from odradek.protocol.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from odradek.protocol.records.record_set import AnyBatch
from odradek.protocol.types import TopicPartition
from odradek.storage.producer_state.producer_state_entry import (
    UNKNOWN_PRODUCER,
    AppendOrigin,
    BatchMetadata,
    ProducerStateEntry,
    check_coordinator_epoch,
    check_in_transaction,
    check_producer_epoch,
    check_sequence,
    read_marker_batch,
)
from odradek.storage.producer_state.snapshot import CorruptSnapshot, ProducerSnapshots
from odradek.storage.producer_state.unstable_transactions import (
    CompletedTxn,
    TxnMetadata,
    UnstableTransactions,
)
from odradek.storage.producer_state.verification_guards import VerificationGuard, VerificationGuards

__all__ = ["AppendOrigin", "ProducerAppendInfo", "ProducerSettings", "ProducerStateManager"]

#: A transaction that is this much older than its timeout is late: its coordinator has lost it.
LATE_TRANSACTION_BUFFER_MS = 5 * 60 * 1000

# In Python 3.11 an attribute lookup on an Enum class takes 100 ns, a global lookup 10 ns.
_CLIENT = AppendOrigin.CLIENT
_REPLICATION = AppendOrigin.REPLICATION


class ProducerSettings(Protocol):
    """The settings that the producer state needs.  They may change while in use."""

    @property
    def producer_id_expiration_ms(self) -> int: ...

    @property
    def transaction_partition_verification_enable(self) -> bool: ...


class ProducerAppendInfo:
    """The effect of a set of batches on the producer state, once the set is written.

    If a batch is already in the log, the set must not be written.  The client gets the offsets and
    the timestamp of the ``duplicate_batch``.  (Clients send one batch to a partition.)
    """

    __slots__ = (
        "completed_txns",
        "duplicate_batch",
        "started_txns",
        "updated_entries",
        "verified_producer_ids",
    )

    def __init__(self, duplicate_batch: BatchMetadata | None = None) -> None:
        self.duplicate_batch = duplicate_batch
        self.updated_entries: dict[int, ProducerStateEntry] = {}
        self.started_txns: list[TxnMetadata] = []
        self.completed_txns: list[CompletedTxn] = []
        self.verified_producer_ids: list[int] = []  # their verification guards can be cleared


#: The result for batches without a producer id.
_NO_PRODUCER_IDS = ProducerAppendInfo()


class ProducerStateManager:
    """The producers of one partition.  Kafka: ProducerStateManager."""

    __slots__ = (
        "_producers",
        "_verification_guards",
        "last_snapshot_offset",
        "map_end_offset",
        "partition",
        "settings",
        "snapshots",
        "transactions",
    )

    def __init__(
        self,
        partition: TopicPartition,
        directory: Path,
        settings: ProducerSettings,
        *,
        snapshot_offsets: Iterable[int] | None = None,
    ) -> None:
        """Create an empty state; ``truncate_and_reload`` loads it.

        ``snapshot_offsets`` is listed from the directory if it is None.
        """
        self.partition = partition
        self.settings = settings
        self.snapshots = ProducerSnapshots(directory, snapshot_offsets)
        self.last_snapshot_offset = 0
        self.map_end_offset = 0
        self._producers: dict[int, ProducerStateEntry] = {}
        self.transactions = UnstableTransactions()
        self._verification_guards = VerificationGuards()

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def active_producers(self) -> Mapping[int, ProducerStateEntry]:
        """By producer id; read-only."""
        return MappingProxyType(self._producers)

    @property
    def is_empty(self) -> bool:
        """Whether a replay of the log would find no producers and no transactions."""
        return not self._producers and not self.transactions.has_unreplicated

    def has_open_transaction(self, producer_id: int, *, epoch: int) -> bool:
        """Return whether the producer has an open transaction in ``epoch``, not an earlier one."""
        entry = self._producers.get(producer_id)
        return entry is not None and entry.is_in_transaction(epoch)

    # Appending

    def analyze_and_validate(
        self,
        batches: Iterable[AnyBatch],
        origin: AppendOrigin,
        *,
        guard: VerificationGuard | None = None,
    ) -> ProducerAppendInfo:
        """Validate a set of well-formed batches that have their offsets.  Changes no state."""
        append_info = _NO_PRODUCER_IDS
        for batch in batches:
            producer_id = batch.producer_id
            if producer_id < 0:
                continue
            if append_info is _NO_PRODUCER_IDS:
                append_info = ProducerAppendInfo()
            current_entry = self._producers.get(producer_id, UNKNOWN_PRODUCER)
            entry = append_info.updated_entries.get(producer_id, current_entry)
            if batch.attributes & CONTROL_FLAG:
                self._append_end_txn_marker(append_info, entry, batch, origin)
                continue
            is_next = origin is _CLIENT and entry.is_next_in_sequence(batch)
            if not is_next and origin is not _REPLICATION:
                if (
                    origin is _CLIENT
                    and (duplicate := current_entry.find_duplicate_batch(batch)) is not None
                ):
                    return ProducerAppendInfo(duplicate_batch=duplicate)
                self._validate_data_batch(entry, batch, origin, guard)
            self._append_data_batch(append_info, entry, batch)
        return append_info

    def _validate_data_batch(
        self,
        entry: ProducerStateEntry,
        batch: AnyBatch,
        origin: AppendOrigin,
        guard: VerificationGuard | None,
    ) -> None:
        partition = self.partition
        check_producer_epoch(entry, batch, partition)
        is_open = entry.is_in_transaction(batch.producer_epoch)
        starts_txn = batch.attributes & TRANSACTIONAL_FLAG and not is_open
        if starts_txn and self.settings.transaction_partition_verification_enable:
            self._verification_guards.check(guard, batch, partition)
        if origin is _CLIENT:
            if entry is UNKNOWN_PRODUCER:
                self._verification_guards.check_first_sequence(batch, partition)
            check_sequence(entry, batch, partition)
        check_in_transaction(entry, batch, partition)

    def _append_data_batch(
        self, append_info: ProducerAppendInfo, entry: ProducerStateEntry, batch: AnyBatch
    ) -> None:
        producer_id = batch.producer_id
        append_info.updated_entries[producer_id] = entry.with_batch(batch)
        if batch.attributes & TRANSACTIONAL_FLAG:
            append_info.verified_producer_ids.append(producer_id)
            if entry.current_txn_first_offset is None:
                append_info.started_txns.append(TxnMetadata(batch.base_offset, producer_id))

    def _append_end_txn_marker(
        self,
        append_info: ProducerAppendInfo,
        entry: ProducerStateEntry,
        batch: AnyBatch,
        origin: AppendOrigin,
    ) -> None:
        marker = read_marker_batch(batch)
        if marker is None:
            return
        if origin is not _REPLICATION:
            check_producer_epoch(entry, marker, self.partition)
            check_coordinator_epoch(entry, marker, self.partition)
        append_info.updated_entries[marker.producer_id] = entry.with_end_txn_marker(marker)
        append_info.verified_producer_ids.append(marker.producer_id)
        if entry.current_txn_first_offset is not None:
            append_info.completed_txns.append(
                CompletedTxn(
                    producer_id=marker.producer_id,
                    first_offset=entry.current_txn_first_offset,
                    last_offset=marker.offset,
                    is_aborted=not marker.is_commit,
                )
            )

    def update(self, append_info: ProducerAppendInfo) -> None:
        """Apply ``append_info`` after its batches are written."""
        assert append_info.duplicate_batch is None, append_info
        if append_info is _NO_PRODUCER_IDS:
            return
        self._producers.update(append_info.updated_entries)
        self.transactions.add_started(append_info.started_txns)
        for producer_id in append_info.verified_producer_ids:
            self._verification_guards.clear(producer_id)

    def update_map_end_offset(self, end_offset: int) -> None:
        """The state covers the log up to here, also where batches have no producer id."""
        self.map_end_offset = end_offset

    def replay(self, batches: Iterable[AnyBatch], *, end_offset: int) -> None:
        """Apply batches that are already in the log, up to ``end_offset``."""
        append_info = self.analyze_and_validate(batches, _REPLICATION)
        self.update(append_info)
        for transaction in append_info.completed_txns:
            self.transactions.complete(transaction)
        self.update_map_end_offset(end_offset)

    # Transactions

    def has_late_transaction(self, now_ms: int, *, timeout_max_ms: int) -> bool:
        """Return whether the first open transaction is idle for longer than any timeout allows."""
        first = self.transactions.first_open
        if first is None:
            return False
        last_timestamp = self._producers[first.producer_id].last_timestamp
        return 0 < last_timestamp < now_ms - timeout_max_ms - LATE_TRANSACTION_BUFFER_MS

    def start_verification(
        self,
        producer_id: int,
        *,
        epoch: int,
        sequence: int,
        now_ms: int,
        supports_epoch_bump: bool = False,
    ) -> VerificationGuard | None:
        """Return the guard to pass to ``analyze_and_validate`` after the coordinator has agreed.

        Return None if the transaction is already open and needs no verification.
        """
        entry = self._producers.get(producer_id, UNKNOWN_PRODUCER)
        if entry.is_in_transaction(epoch):
            return None
        if epoch < entry.epoch:
            # Not registered, so it never matches: the coordinator rejects the old epoch with the
            # right error.
            return VerificationGuard()
        return self._verification_guards.start(
            producer_id,
            epoch=epoch,
            sequence=sequence,
            supports_epoch_bump=supports_epoch_bump,
            now_ms=now_ms,
        )

    # Expiration and snapshots

    def remove_expired_producers(self, now_ms: int) -> int:
        """Remove idle producers without an open transaction.  Return how many."""
        idle_since_ms = now_ms - self.settings.producer_id_expiration_ms
        before = len(self._producers)
        self._producers = _unexpired(self._producers, idle_since_ms)
        self._verification_guards.expire(started_until_ms=idle_since_ms)
        return before - len(self._producers)

    def take_snapshot(self, *, is_synced: bool = True) -> Path | None:
        """Write a snapshot at ``map_end_offset``; None if that has not moved since the last one."""
        if self.map_end_offset <= self.last_snapshot_offset:
            return None
        path = self.snapshots.write(self.map_end_offset, self._producers, is_synced=is_synced)
        self.last_snapshot_offset = self.map_end_offset
        return path

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Reset the state for an empty log.  The caller flushes the removal of the snapshots."""
        self.snapshots.remove_all()
        self._clear()
        self.last_snapshot_offset = 0
        self.map_end_offset = offset

    def on_log_start_offset_incremented(self, offset: int) -> None:
        """Records before ``offset`` are deleted.  Their producers are kept."""
        self.transactions.on_high_watermark_updated(offset)
        self.map_end_offset = max(self.map_end_offset, offset)
        # Kafka falls back to ``offset`` instead of 0 and then takes no snapshot there.  The next
        # truncation would lose the producers whose batches are deleted.
        self.last_snapshot_offset = self.snapshots.latest_offset or 0

    def truncate_and_reload(self, *, start: int, end: int, now_ms: int) -> list[CorruptSnapshot]:
        """Load the newest snapshot between ``start`` and ``end``, the new range of the log.

        The caller must replay the log from ``map_end_offset`` on.  The high watermark must not
        exceed ``end``.  Corrupt snapshots are removed and returned.
        """
        previous_end = max(self.map_end_offset, self.snapshots.latest_offset or 0)
        self.snapshots.remove_outside(start=start, end=end)
        if end < previous_end:
            self.snapshots.sync_directory()
        if end == self.map_end_offset:
            self.on_log_start_offset_incremented(start)
            return []
        self._clear()
        errors = []
        while (offset := self.snapshots.latest_offset) is not None:
            try:
                entries = self.snapshots.read(offset)
            except CorruptSnapshot as error:
                errors.append(error)
                self.snapshots.remove(offset)
                continue
            self._load_entries(entries, now_ms)
            break
        self.last_snapshot_offset = self.map_end_offset = start if offset is None else offset
        return errors

    def _clear(self) -> None:
        self._producers = {}
        self.transactions = UnstableTransactions()

    def _load_entries(self, entries: dict[int, ProducerStateEntry], now_ms: int) -> None:
        self._producers = _unexpired(entries, now_ms - self.settings.producer_id_expiration_ms)
        self.transactions = UnstableTransactions(
            TxnMetadata(entry.current_txn_first_offset, producer_id)
            for producer_id, entry in self._producers.items()
            if entry.current_txn_first_offset is not None
        )


def _unexpired(
    entries: dict[int, ProducerStateEntry], idle_since_ms: int
) -> dict[int, ProducerStateEntry]:
    return {
        producer_id: entry
        for producer_id, entry in entries.items()
        if entry.last_timestamp > idle_since_ms or entry.current_txn_first_offset is not None
    }
