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

from odradek.broker.coordinator.batches import KeyValue
from odradek.broker.coordinator.log_failures import OF_A_TRANSACTION, told
from odradek.broker.coordinator.partition_log import PartitionLog
from odradek.broker.transactions.records import (
    TRANSACTION_KEY,
    read_key,
    read_value,
    transaction_key,
    transaction_value,
)
from odradek.broker.transactions.transaction_state import PREPARED, State, Transaction, apply
from odradek.broker.transactions.world import TransactionWorld
from odradek.broker.turns import Turn
from odradek.protocol.errors import KafkaError, NotCoordinator
from odradek.protocol.internal.log_record import part_version

log = logging.getLogger(__name__)

#: What stood against a step, when that is known; None: it has taken effect.
Waiting = asyncio.Future[KafkaError | None]


class TransactionShard:
    """What this broker coordinates, as long as it leads the partition.

    ``complete`` is told of every transaction whose markers are to be written.
    """

    def __init__(
        self,
        partition_log: PartitionLog,
        world: TransactionWorld,
        complete: Callable[[TransactionShard, Transaction], None],
    ) -> None:
        self.log = partition_log
        self.world = world
        self._complete = complete
        self.transactions: dict[str, Transaction] = {}
        self._pending: set[str] = set()
        #: To be completed soon.
        self._prepared: deque[Transaction] = deque()
        self._is_completing = False
        self.is_active = False

    @property
    def coordinator_epoch(self) -> int:
        """That of the partition's leader: markers of an earlier one are refused."""
        return self.log.partition.leader_epoch

    # Loading and unloading

    def apply(self, key: bytes, value: bytes, offset: int) -> None:
        if part_version(key) != TRANSACTION_KEY:
            log.debug("A record of kind %d is passed over", part_version(key))
            return
        transactional_id = read_key(key)
        txn = apply(None, read_value(transactional_id, value))
        self.transactions[transactional_id] = txn
        if txn.state in PREPARED:
            self._prepared.append(txn)

    def apply_pending(self, producer_id: int, key: bytes, value: bytes, offset: int) -> None:
        """Nobody writes to this topic in a transaction."""

    def begin(self) -> None:
        """What was prepared by whoever coordinated before is completed."""
        self.is_active = True
        self._complete_soon()

    def _complete_soon(self, changed: Iterable[Transaction] = ()) -> None:
        """In turns: thousands may be loaded, or have waited for the same replica."""
        self._prepared += [txn for txn in changed if txn.state in PREPARED]
        if self._prepared and not self._is_completing:
            self._is_completing = True
            self.world.start(self._complete_prepared(), "completion of what was prepared")

    async def _complete_prepared(self) -> None:
        turn = Turn()
        try:
            while self._prepared and self.is_active:
                self._complete(self, self._prepared.popleft())
                if turn.is_over:
                    await turn.next()
        finally:
            self._is_completing = False

    def end(self) -> None:
        self.is_active = False
        self.transactions.clear()

    # Steps

    def is_pending(self, transactional_id: str) -> bool:
        return transactional_id in self._pending

    def write(self, record: Transaction) -> Waiting | None:
        """None: it has taken effect.  Raises what its client is told if it cannot be written.

        What waits takes effect when it is replicated, whether or not anybody waits for it.
        """
        transactional_id = record.transactional_id
        before = self.transactions.get(transactional_id)

        def take_effect() -> None:
            self.transactions[transactional_id] = apply(before, record)

        value = transaction_value(record, server_version=self.world.version())
        key = transaction_key(transactional_id)
        waiting = self._append([(key, value)], [record], take_effect)
        if waiting is None and record.state in PREPARED:
            self._complete(self, record)
        return waiting

    def forget(self, expired: Sequence[Transaction]) -> Waiting | None:
        """None of them is pending."""
        dead = [txn.moved(State.DEAD, partitions=frozenset()) for txn in expired]

        def take_effect() -> None:
            for txn in dead:
                del self.transactions[txn.transactional_id]

        tombstones = [(transaction_key(txn.transactional_id), None) for txn in dead]
        return self._append(tombstones, dead, take_effect)

    def _append(
        self,
        records: Sequence[KeyValue],
        changed: Sequence[Transaction],
        take_effect: Callable[[], None],
    ) -> Waiting | None:
        ids = [txn.transactional_id for txn in changed]
        assert self._pending.isdisjoint(ids), (self._pending, ids)
        if not self.is_active:
            raise NotCoordinator()
        try:
            written = self.log.append(records)
        except KafkaError as failure:
            raise told(failure, OF_A_TRANSACTION) from failure
        if self.log.is_replicated(written):
            take_effect()
            return None
        self._pending.update(ids)
        waiting: Waiting = asyncio.get_running_loop().create_future()

        def tell(failure: KafkaError | None) -> None:
            self._pending.difference_update(ids)
            if failure is not None:
                failure = told(failure, OF_A_TRANSACTION)
            elif not self.is_active:
                failure = NotCoordinator()
            else:
                take_effect()
                self._complete_soon(changed)
            if not waiting.done():  # whoever waits may have gone
                waiting.set_result(failure)

        self.log.when_replicated(written, tell)
        return waiting


async def wait_for(waiting: Waiting | None) -> None:
    """Until it has taken effect; raises what stood against it."""
    failure = None if waiting is None else await waiting
    if failure is not None:
        raise failure
