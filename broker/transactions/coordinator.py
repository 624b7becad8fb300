"""The transaction coordinator: its shards, and the requests for a transactional id.

Kafka: TransactionCoordinator.

Every transition is decided (decisions.py), appended (shard.py) and applied before the response is
sent.  The markers of a transaction that ends are sent later (marker_channel_manager.py).

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Set
from functools import partial
from typing import TypeVar

from odradek.broker.coordinator.lookup import CoordinatorLookup
from odradek.broker.coordinator.partition_log import CoordinatorContext, CoordinatorPartitionLog
from odradek.broker.coordinator.runtime import CoordinatorRuntime
from odradek.broker.metadata.internal_topics import TRANSACTION_STATE
from odradek.broker.transactions.context import TransactionContext
from odradek.broker.transactions.decisions import (
    EndTransactionRequest,
    check_can_init,
    check_can_verify,
    decide_add_partitions,
    decide_end,
    decide_fence,
    decide_init,
)
from odradek.broker.transactions.expiry import (
    abort_timed_out_transactions,
    remove_expired_transactional_ids,
)
from odradek.broker.transactions.marker_channel_manager import TransactionMarkerChannelManager
from odradek.broker.transactions.shard import PendingAppend, TransactionStateShard, wait_for_append
from odradek.broker.transactions.transaction_state import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
)
from odradek.protocol.errors import (
    ConcurrentTransactions,
    InvalidRequest,
    InvalidTransactionTimeout,
    KafkaError,
    TransactionAbortable,
)
from odradek.protocol.types import TopicPartition

log = logging.getLogger("kafka.coordinator.transaction")

Result = TypeVar("Result")
#: A function to call and await for the result.
Deferred = Callable[[], Awaitable[Result]]

NO_PRODUCER = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class TransactionCoordinator:
    """All transactional ids that this broker coordinates."""

    def __init__(
        self,
        lookup: CoordinatorLookup,
        context: TransactionContext,
        coordinator_context: CoordinatorContext,
        marker_channel_manager: TransactionMarkerChannelManager,
    ) -> None:
        self.lookup = lookup
        self.context = context
        self._marker_channel_manager = marker_channel_manager
        self.runtime: CoordinatorRuntime[TransactionStateShard] = CoordinatorRuntime(
            TRANSACTION_STATE, self._new_shard, coordinator_context, waits_for_replicas=True
        )

    def _new_shard(self, partition_log: CoordinatorPartitionLog) -> TransactionStateShard:
        return TransactionStateShard(
            partition_log, self.context, self._marker_channel_manager.complete_transaction
        )

    def __iter__(self) -> Iterator[TransactionStateShard]:
        return iter(self.runtime)

    def shard(self, transactional_id: str) -> TransactionStateShard:
        """Raises the error for the client if this broker does not coordinate the id."""
        if not transactional_id:
            raise InvalidRequest("transactional id must not be empty")
        return self.runtime.shard(self.lookup.known_partition_for(transactional_id))

    # These methods return the result if it is known at once, else a ``Deferred``.

    def init_producer_id(
        self, transactional_id: str, expected: ProducerIdAndEpoch | None, *, timeout_ms: int
    ) -> ProducerIdAndEpoch | Deferred[ProducerIdAndEpoch]:
        """Return the new producer of the id; ``expected`` is the current one that the client knows.

        The producers before it are fenced.
        """
        if not 0 < timeout_ms <= self.context.settings.max_timeout_ms:
            raise InvalidTransactionTimeout(
                f"transaction.timeout.ms={timeout_ms}: must be positive and at most"
                " transaction.max.timeout.ms"
            )
        init = partial(self._init_producer_id, transactional_id, expected, timeout_ms)
        txn = self.shard(transactional_id).transactions.get(transactional_id)
        return self._with_producer_id(init, is_needed=txn is None or txn.is_epoch_exhausted)

    def _init_producer_id(
        self,
        transactional_id: str,
        expected: ProducerIdAndEpoch | None,
        timeout_ms: int,
        new_producer_id: int | None,
    ) -> ProducerIdAndEpoch | Deferred[ProducerIdAndEpoch]:
        context, shard, now_ms = self.context, self.shard(transactional_id), self.context.now_ms()
        txn = shard.transactions.get(transactional_id)
        if txn is None:
            if new_producer_id is None:
                raise ConcurrentTransactions("the transactional id has just expired")
            txn = TransactionMetadata(transactional_id, new_producer_id, timeout_ms, now_ms)
        check_can_init(
            txn, expected, has_pending_transition=shard.has_pending_transition(transactional_id)
        )
        if txn.state is TransactionState.ONGOING:
            record = decide_fence(
                txn, transaction_version=context.transaction_version(), now_ms=now_ms
            )
            return partial(_wait_and_raise_concurrent, shard.write(record))
        record = decide_init(
            txn, expected, timeout_ms=timeout_ms, now_ms=now_ms, new_producer_id=new_producer_id
        )
        pending_append = shard.write(record)
        log.info("Initialized transactionalId %r with %s", transactional_id, record.producer)
        return (
            record.producer
            if pending_append is None
            else partial(_wait_and_return, pending_append, record.producer)
        )

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Set[TopicPartition],
        *,
        client_transaction_version: int,
    ) -> PendingAppend | None:
        """Add partitions to the transaction of the producer; the first ones begin it."""
        shard = self.shard(transactional_id)
        record = decide_add_partitions(
            shard.transactions.get(transactional_id),
            producer,
            partitions,
            client_transaction_version=client_transaction_version,
            now_ms=self.context.now_ms(),
            has_pending_transition=shard.has_pending_transition(transactional_id),
        )
        return None if record is None else shard.write(record)

    def verify_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
    ) -> dict[TopicPartition, KafkaError | None]:
        """Return an error for each partition that is not in the transaction, else None.

        Raises an error that concerns all partitions.
        """
        shard = self.shard(transactional_id)
        txn = check_can_verify(shard.transactions.get(transactional_id), producer)
        return {
            each: None if each in txn.partitions else TransactionAbortable() for each in partitions
        }

    def end_transaction(
        self, transactional_id: str, request: EndTransactionRequest
    ) -> ProducerIdAndEpoch | Deferred[ProducerIdAndEpoch]:
        """Return the producer of the next transaction, if each transaction has its own epoch."""
        txn = self.shard(transactional_id).transactions.get(transactional_id)
        is_needed = txn is not None and txn.is_epoch_exhausted and request.bumps_epoch
        return self._with_producer_id(
            partial(self._end_transaction, transactional_id, request), is_needed=is_needed
        )

    def _end_transaction(
        self, transactional_id: str, request: EndTransactionRequest, new_producer_id: int | None
    ) -> ProducerIdAndEpoch | Deferred[ProducerIdAndEpoch]:
        shard = self.shard(transactional_id)
        txn = shard.transactions.get(transactional_id)
        record = decide_end(
            txn,
            request,
            now_ms=self.context.now_ms(),
            new_producer_id=new_producer_id,
            has_pending_transition=shard.has_pending_transition(transactional_id),
        )
        pending_append = None if record is None else shard.write(record)
        new_txn = record or txn
        assert new_txn is not None
        producer = new_txn.next_producer if request.bumps_epoch else NO_PRODUCER
        return (
            producer
            if pending_append is None
            else partial(_wait_and_return, pending_append, producer)
        )

    def _with_producer_id(
        self,
        action: Callable[[int | None], ProducerIdAndEpoch | Deferred[ProducerIdAndEpoch]],
        *,
        is_needed: bool,
    ) -> ProducerIdAndEpoch | Deferred[ProducerIdAndEpoch]:
        """Call ``action``, with a new id if needed; the controller may have to allocate one."""
        new_id = (
            self.context.producer_id_manager.generate_producer_id_nowait() if is_needed else None
        )
        if is_needed and new_id is None:
            return partial(self._with_allocated_producer_id, action)
        return action(new_id)

    async def _with_allocated_producer_id(
        self, action: Callable[[int | None], ProducerIdAndEpoch | Deferred[ProducerIdAndEpoch]]
    ) -> ProducerIdAndEpoch:
        result = action(await self.context.producer_id_manager.generate_producer_id())
        return result if isinstance(result, ProducerIdAndEpoch) else await result()

    async def abort_timed_out_transactions(self) -> None:
        await abort_timed_out_transactions(self.runtime)

    async def remove_expired_transactional_ids(self) -> None:
        await remove_expired_transactional_ids(self.runtime)

    async def close(self) -> None:
        """Unload all shards and close the connections to other brokers."""
        self.runtime.close()
        self._marker_channel_manager.close()


async def _wait_and_return(
    pending_append: PendingAppend, producer: ProducerIdAndEpoch
) -> ProducerIdAndEpoch:
    await wait_for_append(pending_append)
    return producer


async def _wait_and_raise_concurrent(pending_append: PendingAppend | None) -> ProducerIdAndEpoch:
    await wait_for_append(pending_append)
    raise ConcurrentTransactions("the open transaction is being aborted")
