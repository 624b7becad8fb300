"""The coordinator of transactions: its shards, and what is asked of a transactional id.

Every step is decided (decisions.py), written (shard.py), and has taken effect before it is
answered.  Markers follow an end on their own (markers.py).

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Set

from odradek.broker.coordinator.loading import Shards
from odradek.broker.coordinator.lookup import CoordinatorLookup
from odradek.broker.coordinator.partition_log import Means, PartitionLog
from odradek.broker.metadata.internal_topics import TRANSACTION_STATE
from odradek.broker.transactions.decisions import (
    Ending,
    check_may_init,
    check_verified,
    decide_add,
    decide_end,
    decide_fence,
    decide_init,
)
from odradek.broker.transactions.expiry import abort_timed_out, forget_expired
from odradek.broker.transactions.markers import Markers
from odradek.broker.transactions.shard import TransactionShard
from odradek.broker.transactions.transaction_state import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    Producer,
    State,
    Transaction,
)
from odradek.broker.transactions.world import TransactionWorld
from odradek.protocol.errors import (
    ConcurrentTransactions,
    InvalidRequest,
    InvalidTransactionTimeout,
    KafkaError,
    TransactionAbortable,
)
from odradek.protocol.types import TopicPartition

log = logging.getLogger(__name__)

NOBODY = Producer(NO_PRODUCER_ID, NO_EPOCH)


class TransactionCoordinator:
    """All transactional ids that this broker coordinates."""

    def __init__(
        self, lookup: CoordinatorLookup, world: TransactionWorld, means: Means, markers: Markers
    ) -> None:
        self.lookup = lookup
        self.world = world
        self._markers = markers
        self.shards: Shards[TransactionShard] = Shards(TRANSACTION_STATE, self._new_shard, means)

    def _new_shard(self, partition_log: PartitionLog) -> TransactionShard:
        return TransactionShard(partition_log, self.world, self._markers.complete)

    def __iter__(self) -> Iterator[TransactionShard]:
        return iter(self.shards)

    def shard(self, transactional_id: str) -> TransactionShard:
        """Raises what whoever asks is told if it is not here."""
        if not transactional_id:
            raise InvalidRequest("an empty transactional id")
        return self.shards.shard(self.lookup.partition_of(transactional_id))

    async def init(
        self, transactional_id: str, expected: Producer | None, *, timeout_ms: int
    ) -> Producer:
        """Who speaks for the id from now on; ``expected`` is who did, as the client has it."""
        world = self.world
        if not 0 < timeout_ms <= world.settings.max_timeout_ms:
            raise InvalidTransactionTimeout(f"{timeout_ms} ms")
        shard = self.shard(transactional_id)
        known = shard.transactions.get(transactional_id)
        new_id = await self._new_id() if known is None or known.is_exhausted else None
        now_ms = world.now_ms()
        txn = shard.transactions.get(transactional_id)
        if txn is None:
            if new_id is None:
                raise ConcurrentTransactions("it has just expired")
            txn = Transaction(transactional_id, new_id, timeout_ms, now_ms)
        check_may_init(txn, expected, is_pending=shard.is_pending(transactional_id))
        if txn.state is State.ONGOING:
            await shard.write(decide_fence(txn, server_version=world.version(), now_ms=now_ms))
            raise ConcurrentTransactions("what was open is being aborted")
        record = decide_init(txn, expected, timeout_ms=timeout_ms, now_ms=now_ms, new_id=new_id)
        await shard.write(record)
        log.info("%r is %s's from now on", transactional_id, record.producer)
        return record.producer

    async def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Set[TopicPartition],
        *,
        client_version: int,
    ) -> None:
        """The partitions are in the transaction of the producer, which begins with them."""
        shard = self.shard(transactional_id)
        record = decide_add(
            shard.transactions.get(transactional_id),
            producer,
            partitions,
            client_version=client_version,
            now_ms=self.world.now_ms(),
            is_pending=shard.is_pending(transactional_id),
        )
        if record is not None:
            await shard.write(record)

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Which of them are in the transaction; raises what is said of all."""
        shard = self.shard(transactional_id)
        txn = check_verified(shard.transactions.get(transactional_id), producer)
        return {
            each: None if each in txn.partitions else TransactionAbortable() for each in partitions
        }

    async def end(self, transactional_id: str, ending: Ending) -> Producer:
        """Who speaks for the id from now on, if every transaction has an epoch of its own."""
        shard = self.shard(transactional_id)
        known = shard.transactions.get(transactional_id)
        needs_id = known is not None and known.is_exhausted and ending.begins_epoch
        new_id = await self._new_id() if needs_id else None
        txn = shard.transactions.get(transactional_id)
        record = decide_end(
            txn,
            ending,
            now_ms=self.world.now_ms(),
            new_id=new_id,
            is_pending=shard.is_pending(transactional_id),
        )
        if record is not None:
            await shard.write(record)
        if not ending.begins_epoch:
            return NOBODY
        after = record or txn
        assert after is not None
        return after.successor

    async def abort_timed_out(self) -> None:
        await abort_timed_out(self.shards)

    async def forget_expired(self) -> None:
        await forget_expired(self.shards)

    async def _new_id(self) -> int:
        found = self.world.ids.next_nowait()
        return await self.world.ids.next() if found is None else found

    async def close(self) -> None:
        """Nothing is begun any more."""
        self.shards.close()
        self._markers.close()
