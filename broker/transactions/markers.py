"""Markers: what tells the partitions of a transaction how it has ended.

    prepared     its partitions are grouped by the broker that leads them, this one included
    sent         each broker gets one request at a time, with all markers that have come meanwhile
    answered     a partition that has its marker, or is gone, is done with
    otherwise    again, to whoever leads the partition by then, until all are done with
    completed    the log of the coordinator says so

This ends when the transaction is complete or this broker is its coordinator no more; whoever is
next reads in the log that the transaction is prepared, and does all of it again.  A marker that is
there twice does no harm.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from asyncio import gather
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from odradek.broker.metadata.picture import Node, PartitionState
from odradek.broker.transactions.decisions import decide_complete
from odradek.broker.transactions.marker_link import Codes
from odradek.broker.transactions.shard import TransactionShard, wait_for
from odradek.broker.transactions.transaction_state import Transaction
from odradek.broker.transactions.world import TransactionWorld
from odradek.controller.store.base import StoreError
from odradek.controller.store.payloads.fields import PayloadDamaged
from odradek.protocol.api.write_txn_markers import WriteTxnMarkersRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition, by_topic

log = logging.getLogger(__name__)

Marker = WriteTxnMarkersRequest.Marker

#: Until it is tried again.  Kafka's sender tries at once, and waits for its network instead.
RETRY_S = 0.1
#: What the log does not take is tried after twice as long each time, but no longer than this.
RETRY_MAX_S = 1.0

#: The partition needs no marker: it has one, it cannot have had records of a transaction, or it has
#: heard of the producer's later epoch, before which every transaction has ended.
_DONE = frozenset(
    {
        ErrorCode.NONE.code,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT.code,
        ErrorCode.UNSUPPORTED_VERSION.code,
        ErrorCode.INVALID_PRODUCER_EPOCH.code,
    }
)


class Links(Protocol):
    """To the brokers that lead partitions."""

    async def write(self, node: Node, marker: Marker, /) -> Codes: ...

    def close(self) -> None: ...


class Cluster(Protocol):
    """What is known of the cluster."""

    def partition(self, topic: str, partition: int, /) -> PartitionState | None: ...

    def leader_node(self, topic: str, partition: int, /, *, listener: str) -> Node | None: ...


class Markers:
    """Completes what is prepared."""

    def __init__(
        self,
        cluster: Cluster,
        world: TransactionWorld,
        links: Links,
        *,
        listener: str,
        has_partition: Callable[[TopicPartition], Awaitable[bool]],
    ) -> None:
        """``has_partition`` asks the store: what is known of the cluster may not be all yet."""
        self._cluster = cluster
        self._world = world
        self._links = links
        self._listener = listener
        self._has_partition = has_partition

    def complete(self, shard: TransactionShard, txn: Transaction) -> None:
        """Begin to; nobody waits for it."""
        self._world.start(self._complete(shard, txn), f"completion of {txn.transactional_id}")

    async def _complete(self, shard: TransactionShard, txn: Transaction) -> None:
        left = await self._mark(shard, txn, txn.partitions)
        if left and shard.is_active:
            names = ", ".join(map(str, sorted(left)))
            log.info("%r is not ended in all partitions yet: %s", txn.transactional_id, names)
        while left and shard.is_active:
            await self._world.sleep(RETRY_S)
            left = await self._mark(shard, txn, left)
        await self._write_completion(shard, txn)

    async def _write_completion(self, shard: TransactionShard, txn: Transaction) -> None:
        retry_s = RETRY_S
        while shard.is_active:
            try:
                await wait_for(shard.write(decide_complete(txn, now_ms=self._world.now_ms())))
            except KafkaError as failure:
                if retry_s == RETRY_S:  # there may be thousands; each tells it once
                    log.warning("%r is not complete yet: %s", txn.transactional_id, failure)
                await self._world.sleep(retry_s)
                retry_s = min(2 * retry_s, RETRY_MAX_S)
            else:
                return

    async def _mark(
        self, shard: TransactionShard, txn: Transaction, partitions: Iterable[TopicPartition]
    ) -> frozenset[TopicPartition]:
        """Those that have to be tried again."""
        by_leader: dict[Node, list[TopicPartition]] = {}
        again: list[TopicPartition] = []
        for each in sorted(partitions):
            node = self._cluster.leader_node(*each, listener=self._listener)
            if node is not None:
                by_leader.setdefault(node, []).append(each)
            elif not await self._is_gone(each):
                again.append(each)
        if by_leader and shard.is_active:
            epoch = shard.coordinator_epoch
            writing = [
                self._links.write(node, _marker(txn, led, coordinator_epoch=epoch))
                for node, led in by_leader.items()
            ]
            # Its producer may be waiting for the end: one broker is asked without another task.
            answers = await gather(*writing) if len(writing) > 1 else [await writing[0]]
            for led, codes in zip(by_leader.values(), answers, strict=True):
                again += _not_done(txn, led, codes)
        return frozenset(again)

    async def _is_gone(self, partition: TopicPartition) -> bool:
        """A partition that has no leader at the moment is not.

        One that is not in its topic is: that may have been deleted, and made again with fewer.
        """
        if self._cluster.partition(*partition) is not None:
            return False
        try:
            return not await self._has_partition(partition)
        except (StoreError, PayloadDamaged) as failure:
            log.info("Whether there is a partition %s is not known: %s", partition, failure)
            return False

    def close(self) -> None:
        self._links.close()


def _marker(
    txn: Transaction, partitions: Iterable[TopicPartition], *, coordinator_epoch: int
) -> Marker:
    return Marker(
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        transaction_result=txn.is_commit,
        topics=[
            Marker.Topic(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(partitions).items()
        ],
        coordinator_epoch=coordinator_epoch,
    )


def _not_done(
    txn: Transaction, partitions: Iterable[TopicPartition], codes: Codes
) -> list[TopicPartition]:
    left = [each for each in partitions if codes.get(each) not in _DONE]
    if left and codes:
        named = {str(each): ErrorCode.of(codes[each]).name for each in left if each in codes}
        log.debug("Markers of %r are written again: %s", txn.transactional_id, named)
    return left
