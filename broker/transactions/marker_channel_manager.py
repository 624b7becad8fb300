"""Markers: what tells the partitions of a transaction how it has ended.

    prepared     its partitions are grouped by the broker that leads them, this one included
    sent         each other broker gets one request at a time, with all markers that have come
                 meanwhile; this one writes them in the same call
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
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from odradek.broker.metadata.picture import Node, PartitionState
from odradek.broker.transactions.decisions import decide_complete
from odradek.broker.transactions.marker_link import Codes
from odradek.broker.transactions.shard import TransactionShard, Waiting, wait_for
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

#: Until it is tried again, twice as long each time, but no longer than the second.  Kafka's sender
#: tries at once, and waits for its network instead.
RETRY_MIN_S, RETRY_MAX_S = 0.1, 1.0

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

    def write(self, node: Node, marker: Marker, /) -> Codes | Awaitable[Codes]: ...

    def close(self) -> None: ...


class Cluster(Protocol):
    """What is known of the cluster."""

    def partition(self, topic: str, partition: int, /) -> PartitionState | None: ...

    def leader_node(self, topic: str, partition: int, /, *, listener: str) -> Node | None: ...


class Marking(NamedTuple):
    """What brokers say of the partitions that they lead, or will say, and who has no leader."""

    answers: Sequence[tuple[Sequence[TopicPartition], Codes | Awaitable[Codes]]]
    leaderless: Sequence[TopicPartition]

    @property
    def is_done(self) -> bool:
        """Whether it is known by now that all partitions are done with."""
        return not self.leaderless and all(
            isinstance(codes, Mapping) and all(codes.get(each) in _DONE for each in led)
            for led, codes in self.answers
        )


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
        """Begin to; nobody waits for it.

        It is complete at once if nobody has to be waited for: where this broker leads all of its
        partitions, and is their only replica in sync.
        """
        marking = self._mark(shard, txn, txn.partitions)
        if marking.is_done:
            self._complete_marked(shard, txn)
        else:
            self._start(txn, self._mark_and_complete(shard, txn, marking))

    def _complete_marked(self, shard: TransactionShard, txn: Transaction) -> None:
        waiting: Waiting | None = None
        try:
            waiting = shard.write(decide_complete(txn, now_ms=self._world.now_ms()))
        except KafkaError:
            is_done = False  # it is tried again, and told of if that fails, too
        else:
            is_done = waiting is None
        if not is_done:
            self._start(txn, self._write_completion(shard, txn, waiting))

    def _start(self, txn: Transaction, work: Coroutine[Any, Any, None]) -> None:
        self._world.start(work, f"completion of {txn.transactional_id}")

    async def _mark_and_complete(
        self, shard: TransactionShard, txn: Transaction, marking: Marking
    ) -> None:
        left = await self._left(txn, marking)
        if left and shard.is_active:
            names = ", ".join(map(str, sorted(left)))
            log.info("%r is not ended in all partitions yet: %s", txn.transactional_id, names)
        pauses_s = _pauses_s()
        while left and shard.is_active:
            await self._world.sleep(next(pauses_s))
            if shard.is_active:
                left = await self._left(txn, self._mark(shard, txn, left))
        await self._write_completion(shard, txn)

    async def _write_completion(
        self, shard: TransactionShard, txn: Transaction, waiting: Waiting | None = None
    ) -> None:
        """``waiting``, if it is written already."""
        pauses_s, is_told = _pauses_s(), False
        while shard.is_active:
            try:
                if waiting is None:
                    waiting = shard.write(decide_complete(txn, now_ms=self._world.now_ms()))
                await wait_for(waiting)
            except KafkaError as failure:
                if not is_told:  # there may be thousands; each tells it once
                    log.warning("%r is not complete yet: %s", txn.transactional_id, failure)
                    is_told = True
                await self._world.sleep(next(pauses_s))
                waiting = None
            else:
                return

    def _mark(
        self, shard: TransactionShard, txn: Transaction, partitions: Iterable[TopicPartition]
    ) -> Marking:
        by_leader: dict[Node, list[TopicPartition]] = {}
        leaderless: list[TopicPartition] = []
        for each in sorted(partitions):
            node = self._cluster.leader_node(*each, listener=self._listener)
            (leaderless if node is None else by_leader.setdefault(node, [])).append(each)
        epoch = shard.coordinator_epoch
        answers = [
            (led, self._links.write(node, _marker(txn, led, coordinator_epoch=epoch)))
            for node, led in by_leader.items()
        ]
        return Marking(answers, leaderless)

    async def _left(self, txn: Transaction, marking: Marking) -> frozenset[TopicPartition]:
        """What has to be tried again."""
        left = {each for each in marking.leaderless if not await self._is_gone(each)}
        for led, answer in marking.answers:
            codes = answer if isinstance(answer, Mapping) else await answer
            not_done = [each for each in led if codes.get(each) not in _DONE]
            if not_done and codes:
                said = {
                    str(each): ErrorCode.of(codes[each]).name for each in not_done if each in codes
                }
                log.debug("Markers of %r are written again: %s", txn.transactional_id, said)
            left.update(not_done)
        return frozenset(left)

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


def _pauses_s() -> Iterator[float]:
    pause_s = RETRY_MIN_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, RETRY_MAX_S)


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
