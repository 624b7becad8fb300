"""The transactional ids of one partition of ``__transaction_state``.

A step is decided by whoever asks for it, written here, and takes effect once all replicas in sync
have it: so nobody acts on what may still be lost.  From the writing until then it is pending, and
whatever else is asked of the same id is refused.  A step that cannot be replicated has not taken
effect, although it may be in the log; the next one of the same id comes after it.

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

log = logging.getLogger(__name__)

#: What stood against a step, when that is known; None: it has taken effect.
PendingAppend = asyncio.Future[KafkaError | None]


class TransactionStateShard:
    """What this broker coordinates, as long as it leads the partition.

    ``complete`` is told of every transaction whose markers are to be written.
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
        #: To be completed soon.
        self._prepared_transactions: deque[TransactionMetadata] = deque()
        self._is_completing = False
        self.is_active = False

    @property
    def coordinator_epoch(self) -> int:
        """That of the partition's leader: markers of an earlier one are refused."""
        return self.log.partition.leader_epoch

    # Loading and unloading

    def apply(self, key: bytes, value: bytes, offset: int) -> None:
        if read_version_prefix(key) != TRANSACTION_KEY_VERSION:
            log.debug("A record of kind %d is passed over", read_version_prefix(key))
            return
        transactional_id = read_key(key)
        txn = complete_transition(None, read_value(transactional_id, value))
        self.transactions[transactional_id] = txn
        if txn.state in PREPARED:
            self._prepared_transactions.append(txn)

    def apply_pending(self, producer_id: int, key: bytes, value: bytes, offset: int) -> None:
        """Nobody writes to this topic in a transaction."""

    def on_loaded(self) -> None:
        """What was prepared by whoever coordinated before is completed."""
        self.is_active = True
        self._schedule_completion()

    def _schedule_completion(self, changed: Iterable[TransactionMetadata] = ()) -> None:
        """In turns: thousands may be loaded, or have waited for the same replica."""
        self._prepared_transactions += [txn for txn in changed if txn.state in PREPARED]
        if self._prepared_transactions and not self._is_completing:
            self._is_completing = True
            self.context.start_task(self._complete_prepared(), "completion of what was prepared")

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

    # Steps

    def has_pending_transition(self, transactional_id: str) -> bool:
        return transactional_id in self._pending_transitions

    def write(self, new_metadata: TransactionMetadata) -> PendingAppend | None:
        """None: it has taken effect.  Raises what its client is told if it cannot be written.

        What waits takes effect when it is replicated, whether or not anybody waits for it.
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
        """None of them is pending."""
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
            if not pending_append.done():  # whoever waits may have gone
                pending_append.set_result(error)

        self.log.when_replicated(append_info, on_replicated)
        return pending_append


async def wait_for_append(pending_append: PendingAppend | None) -> None:
    """Until it has taken effect; raises what stood against it."""
    error = None if pending_append is None else await pending_append
    if error is not None:
        raise error
