"""The transactional ids of one partition of ``__transaction_state``.

A step is decided by whoever asks for it, written here, and takes effect once all replicas in sync
have it: so nobody acts on what may still be lost.  From the writing until then it is pending, and
whatever else is asked of the same id is refused.  A step that cannot be replicated has not taken
effect, although it may be in the log; the next one of the same id comes after it.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

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
from odradek.protocol.errors import KafkaError, NotCoordinator
from odradek.protocol.internal.log_record import part_version

log = logging.getLogger(__name__)


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
        #: Found in the log.
        self._prepared: list[Transaction] = []
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
        while self._prepared:
            self._complete(self, self._prepared.pop())

    def end(self) -> None:
        self.is_active = False
        self.transactions.clear()

    # Steps

    def is_pending(self, transactional_id: str) -> bool:
        return transactional_id in self._pending

    async def write(self, record: Transaction) -> None:
        """Returns when it has taken effect; raises what its client is told if it has not."""
        transactional_id = record.transactional_id
        before = self.transactions.get(transactional_id)
        value = transaction_value(record, server_version=self.world.version())
        await self._append([(transaction_key(transactional_id), value)], [transactional_id])
        self.transactions[transactional_id] = apply(before, record)
        if record.state in PREPARED:
            self._complete(self, record)

    async def forget(self, expired: Sequence[Transaction]) -> None:
        """None of them is pending."""
        dead = [txn.moved(State.DEAD, partitions=frozenset()) for txn in expired]
        ids = [txn.transactional_id for txn in dead]
        await self._append([(transaction_key(each), None) for each in ids], ids)
        for transactional_id in ids:
            del self.transactions[transactional_id]

    async def _append(self, records: Sequence[KeyValue], ids: Collection[str]) -> None:
        assert self._pending.isdisjoint(ids), (self._pending, ids)
        if not self.is_active:
            raise NotCoordinator()
        self._pending.update(ids)
        try:
            written = self.log.append(records)
            if not self.log.is_replicated(written):
                await self.log.wait_until_replicated(written)
        except KafkaError as failure:
            raise told(failure, OF_A_TRANSACTION) from failure
        finally:
            self._pending.difference_update(ids)
        if not self.is_active:
            raise NotCoordinator()
