"""The coordinator of transactions: its shards, and what is asked of a transactional id.

Every step is decided (decisions.py), written (shard.py), and has taken effect before it is
answered.  Markers follow an end on their own (markers.py).

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Set
from functools import partial
from typing import TypeVar

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
from odradek.broker.transactions.shard import TransactionShard, Waiting, wait_for
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

Answered = TypeVar("Answered")
#: What has to be waited for, once it is called.
Later = Callable[[], Awaitable[Answered]]

NOBODY = Producer(NO_PRODUCER_ID, NO_EPOCH)


class TransactionCoordinator:
    """All transactional ids that this broker coordinates."""

    def __init__(
        self, lookup: CoordinatorLookup, world: TransactionWorld, means: Means, markers: Markers
    ) -> None:
        self.lookup = lookup
        self.world = world
        self._markers = markers
        self.shards: Shards[TransactionShard] = Shards(
            TRANSACTION_STATE, self._new_shard, means, waits_for_replicas=True
        )

    def _new_shard(self, partition_log: PartitionLog) -> TransactionShard:
        return TransactionShard(partition_log, self.world, self._markers.complete)

    def __iter__(self) -> Iterator[TransactionShard]:
        return iter(self.shards)

    def shard(self, transactional_id: str) -> TransactionShard:
        """Raises what whoever asks is told if it is not here."""
        if not transactional_id:
            raise InvalidRequest("an empty transactional id")
        return self.shards.shard(self.lookup.led_partition_of(transactional_id))

    # What need not wait is answered in the same call; else ``Later`` is to be called and awaited.

    def init(
        self, transactional_id: str, expected: Producer | None, *, timeout_ms: int
    ) -> Producer | Later[Producer]:
        """Who speaks for the id from now on; ``expected`` is who did, as the client has it."""
        if not 0 < timeout_ms <= self.world.settings.max_timeout_ms:
            raise InvalidTransactionTimeout(f"{timeout_ms} ms")
        init = partial(self._init, transactional_id, expected, timeout_ms)
        known = self.shard(transactional_id).transactions.get(transactional_id)
        return self._with_id(init, is_needed=known is None or known.is_exhausted)

    def _init(
        self, transactional_id: str, expected: Producer | None, timeout_ms: int, new_id: int | None
    ) -> Producer | Later[Producer]:
        world, shard, now_ms = self.world, self.shard(transactional_id), self.world.now_ms()
        txn = shard.transactions.get(transactional_id)
        if txn is None:
            if new_id is None:
                raise ConcurrentTransactions("it has just expired")
            txn = Transaction(transactional_id, new_id, timeout_ms, now_ms)
        check_may_init(txn, expected, is_pending=shard.is_pending(transactional_id))
        if txn.state is State.ONGOING:
            record = decide_fence(txn, server_version=world.version(), now_ms=now_ms)
            return partial(_refused, shard.write(record))
        record = decide_init(txn, expected, timeout_ms=timeout_ms, now_ms=now_ms, new_id=new_id)
        waiting = shard.write(record)
        log.info("%r has %s from now on", transactional_id, record.producer)
        return record.producer if waiting is None else partial(_told, waiting, record.producer)

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Set[TopicPartition],
        *,
        client_version: int,
    ) -> Waiting | None:
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
        return None if record is None else shard.write(record)

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Which of them are in the transaction; raises what is said of all."""
        shard = self.shard(transactional_id)
        txn = check_verified(shard.transactions.get(transactional_id), producer)
        return {
            each: None if each in txn.partitions else TransactionAbortable() for each in partitions
        }

    def end(self, transactional_id: str, ending: Ending) -> Producer | Later[Producer]:
        """Who speaks for the id from now on, if every transaction has an epoch of its own."""
        known = self.shard(transactional_id).transactions.get(transactional_id)
        is_needed = known is not None and known.is_exhausted and ending.begins_epoch
        return self._with_id(partial(self._end, transactional_id, ending), is_needed=is_needed)

    def _end(
        self, transactional_id: str, ending: Ending, new_id: int | None
    ) -> Producer | Later[Producer]:
        shard = self.shard(transactional_id)
        txn = shard.transactions.get(transactional_id)
        record = decide_end(
            txn,
            ending,
            now_ms=self.world.now_ms(),
            new_id=new_id,
            is_pending=shard.is_pending(transactional_id),
        )
        waiting = None if record is None else shard.write(record)
        after = record or txn
        assert after is not None
        producer = after.successor if ending.begins_epoch else NOBODY
        return producer if waiting is None else partial(_told, waiting, producer)

    def _with_id(
        self, act: Callable[[int | None], Producer | Later[Producer]], *, is_needed: bool
    ) -> Producer | Later[Producer]:
        """Give it a new producer id, which the controller may have to be asked for."""
        new_id = self.world.ids.next_nowait() if is_needed else None
        if is_needed and new_id is None:
            return partial(self._with_id_later, act)
        return act(new_id)

    async def _with_id_later(
        self, act: Callable[[int | None], Producer | Later[Producer]]
    ) -> Producer:
        outcome = act(await self.world.ids.next())
        return outcome if isinstance(outcome, Producer) else await outcome()

    async def abort_timed_out(self) -> None:
        await abort_timed_out(self.shards)

    async def forget_expired(self) -> None:
        await forget_expired(self.shards)

    async def close(self) -> None:
        """Nothing is begun any more."""
        self.shards.close()
        self._markers.close()


async def _told(waiting: Waiting, producer: Producer) -> Producer:
    await wait_for(waiting)
    return producer


async def _refused(waiting: Waiting | None) -> Producer:
    await wait_for(waiting)
    raise ConcurrentTransactions("what was open is being aborted")
