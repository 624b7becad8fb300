"""The transactional ids of one partition of ``__transaction_state``.

Kafka: TransactionStateManager.

The caller decides a transition.  The shard appends it, and applies it when all in-sync replicas
have it, so that nothing depends on a record that may still be lost.  Until then the transition is
pending, and other requests for the same id are rejected.  A transition that cannot be replicated is
not applied, although it may be in the log; the next transition of the same id follows it there.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from odradek.broker.coordinator.append_errors import TRANSACTION_ERRORS, map_append_error
from odradek.broker.coordinator.batches import KeyValue
from odradek.broker.coordinator.partition_log import CoordinatorPartitionLog
from odradek.broker.time_slice import TimeSlice
from odradek.broker.transactions.context import TransactionContext
from odradek.broker.transactions.records import (
    TRANSACTION_KEY_VERSION,
    read_key,
    read_value,
    transaction_key,
    transaction_value,
)
from odradek.broker.transactions.transaction_state import (
    PREPARED,
    TransactionMetadata,
    TransactionState,
    complete_transition,
)
from odradek.protocol.errors import KafkaError, NotCoordinator
from odradek.protocol.internal.coordinator_record import read_version_prefix

log = logging.getLogger("kafka.coordinator.transaction")

#: Completes with the error of the append, or with None when the transition is applied.
PendingAppend = asyncio.Future[KafkaError | None]


class TransactionStateShard:
    """The transactional ids that this broker coordinates while it leads the partition.

    ``complete_transaction`` is called for every transaction whose markers have to be written.
    """

    def __init__(
        self,
        partition_log: CoordinatorPartitionLog,
        context: TransactionContext,
        complete_transaction: Callable[[TransactionStateShard, TransactionMetadata], None],
    ) -> None:
        self.log = partition_log
        self.context = context
        self._complete_transaction = complete_transaction
        self.transactions: dict[str, TransactionMetadata] = {}
        self._pending_transitions: set[str] = set()
        #: Prepared transactions that are to be completed.
        self._prepared_transactions: deque[TransactionMetadata] = deque()
        self._is_completing = False
        self.is_active = False

    @property
    def coordinator_epoch(self) -> int:
        """The leader epoch of the partition.  Markers of an earlier epoch are rejected."""
        return self.log.partition.leader_epoch

    # Loading and unloading

    def apply(self, key: bytes, value: bytes, offset: int) -> None:
        if read_version_prefix(key) != TRANSACTION_KEY_VERSION:
            log.debug("Skipping record with unknown key version %d", read_version_prefix(key))
            return
        transactional_id = read_key(key)
        txn = complete_transition(None, read_value(transactional_id, value))
        self.transactions[transactional_id] = txn
        if txn.state in PREPARED:
            self._prepared_transactions.append(txn)

    def apply_pending(self, producer_id: int, key: bytes, value: bytes, offset: int) -> None:
        """Do nothing: this topic has no transactional records."""

    def on_loaded(self) -> None:
        """Complete the transactions that the previous coordinator prepared."""
        self.is_active = True
        self._schedule_completion()

    def _schedule_completion(self, changed: Iterable[TransactionMetadata] = ()) -> None:
        """Use time slices: thousands may be loaded, or may have waited for the same replica."""
        self._prepared_transactions += [txn for txn in changed if txn.state in PREPARED]
        if self._prepared_transactions and not self._is_completing:
            self._is_completing = True
            self.context.start_task(
                self._complete_prepared(), "completion of prepared transactions"
            )

    async def _complete_prepared(self) -> None:
        time_slice = TimeSlice()
        try:
            while self._prepared_transactions and self.is_active:
                self._complete_transaction(self, self._prepared_transactions.popleft())
                if time_slice.is_used_up:
                    await time_slice.yield_to_loop()
        finally:
            self._is_completing = False

    def on_unloaded(self) -> None:
        self.is_active = False
        self.transactions.clear()

    # Transitions

    def has_pending_transition(self, transactional_id: str) -> bool:
        return transactional_id in self._pending_transitions

    def write(self, new_metadata: TransactionMetadata) -> PendingAppend | None:
        """Append a transition; None means that it is applied.  Raises the error for the client.

        A pending transition is applied when it is replicated, whether or not the caller waits.
        """
        transactional_id = new_metadata.transactional_id
        current = self.transactions.get(transactional_id)

        def apply_change() -> None:
            self.transactions[transactional_id] = complete_transition(current, new_metadata)

        value = transaction_value(
            new_metadata, transaction_version=self.context.transaction_version()
        )
        key = transaction_key(transactional_id)
        pending_append = self._append([(key, value)], [new_metadata], apply_change)
        if pending_append is None and new_metadata.state in PREPARED:
            self._complete_transaction(self, new_metadata)
        return pending_append

    def write_tombstones(self, expired: Sequence[TransactionMetadata]) -> PendingAppend | None:
        """Append tombstones for ids without a pending transition."""
        dead = [
            txn.prepare_transition_to(TransactionState.DEAD, partitions=frozenset())
            for txn in expired
        ]

        def apply_change() -> None:
            for txn in dead:
                del self.transactions[txn.transactional_id]

        tombstones = [(transaction_key(txn.transactional_id), None) for txn in dead]
        return self._append(tombstones, dead, apply_change)

    def _append(
        self,
        records: Sequence[KeyValue],
        changed: Sequence[TransactionMetadata],
        apply_change: Callable[[], None],
    ) -> PendingAppend | None:
        ids = [txn.transactional_id for txn in changed]
        assert self._pending_transitions.isdisjoint(ids), (self._pending_transitions, ids)
        if not self.is_active:
            raise NotCoordinator()
        try:
            append_info = self.log.append(records)
        except KafkaError as error:
            raise map_append_error(error, TRANSACTION_ERRORS) from error
        if self.log.is_replicated(append_info):
            apply_change()
            return None
        self._pending_transitions.update(ids)
        pending_append: PendingAppend = asyncio.get_running_loop().create_future()

        def on_replicated(error: KafkaError | None) -> None:
            self._pending_transitions.difference_update(ids)
            if error is not None:
                error = map_append_error(error, TRANSACTION_ERRORS)
            elif not self.is_active:
                error = NotCoordinator()
            else:
                apply_change()
                self._schedule_completion(changed)
            if not pending_append.done():  # the caller may be gone
                pending_append.set_result(error)

        self.log.when_replicated(append_info, on_replicated)
        return pending_append


async def wait_for_append(pending_append: PendingAppend | None) -> None:
    """Wait until the transition is applied; raises the error of the append."""
    error = None if pending_append is None else await pending_append
    if error is not None:
        raise error
