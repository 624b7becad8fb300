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

from odradek.broker.metadata.metadata_snapshot import Node, PartitionState
from odradek.broker.transactions.context import TransactionContext
from odradek.broker.transactions.decisions import decide_complete
from odradek.broker.transactions.marker_channel import PartitionErrorCodes
from odradek.broker.transactions.shard import PendingAppend, TransactionStateShard, wait_for_append
from odradek.broker.transactions.transaction_state import TransactionMetadata
from odradek.controller.store.base import StoreError
from odradek.controller.store.payloads.json_object import CorruptPayload
from odradek.protocol.api.write_txn_markers import WriteTxnMarkersRequest
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition, group_by_topic

log = logging.getLogger(__name__)

Marker = WriteTxnMarkersRequest.Marker

#: Until it is tried again, twice as long each time, but no longer than the second.  Kafka's sender
#: tries at once, and waits for its network instead.
RETRY_BACKOFF_MIN_S, RETRY_BACKOFF_MAX_S = 0.1, 1.0

#: The partition needs no marker: it has one, it cannot have had records of a transaction, or it has
#: heard of the producer's later epoch, before which every transaction has ended.
_DONE_ERROR_CODES = frozenset(
    {
        ErrorCode.NONE.code,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT.code,
        ErrorCode.UNSUPPORTED_VERSION.code,
        ErrorCode.INVALID_PRODUCER_EPOCH.code,
    }
)


class MarkerSender(Protocol):
    """To the brokers that lead partitions."""

    def write(
        self, node: Node, marker: Marker, /
    ) -> PartitionErrorCodes | Awaitable[PartitionErrorCodes]: ...

    def close(self) -> None: ...


class ClusterMetadata(Protocol):
    """What is known of the cluster."""

    def partition(self, topic: str, partition: int, /) -> PartitionState | None: ...

    def leader_node(self, topic: str, partition: int, /, *, listener: str) -> Node | None: ...


class MarkerSendResult(NamedTuple):
    """What brokers say of the partitions that they lead, or will say, and who has no leader."""

    responses: Sequence[
        tuple[Sequence[TopicPartition], PartitionErrorCodes | Awaitable[PartitionErrorCodes]]
    ]
    leaderless: Sequence[TopicPartition]

    @property
    def is_done(self) -> bool:
        """Whether it is known by now that all partitions are done with."""
        return not self.leaderless and all(
            isinstance(codes, Mapping) and all(codes.get(each) in _DONE_ERROR_CODES for each in led)
            for led, codes in self.responses
        )


class TransactionMarkerChannelManager:
    """Completes what is prepared."""

    def __init__(
        self,
        metadata_cache: ClusterMetadata,
        context: TransactionContext,
        marker_channels: MarkerSender,
        *,
        listener: str,
        has_partition: Callable[[TopicPartition], Awaitable[bool]],
    ) -> None:
        """``has_partition`` asks the store: what is known of the cluster may not be all yet."""
        self._metadata_cache = metadata_cache
        self._context = context
        self._marker_channels = marker_channels
        self._listener = listener
        self._has_partition = has_partition

    def complete_transaction(self, shard: TransactionStateShard, txn: TransactionMetadata) -> None:
        """Begin to; nobody waits for it.

        It is complete at once if nobody has to be waited for: where this broker leads all of its
        partitions, and is their only replica in sync.
        """
        send_result = self._send_markers(shard, txn, txn.partitions)
        if send_result.is_done:
            self._try_complete_now(shard, txn)
        else:
            self._start_completion_task(
                txn, self._send_markers_and_complete(shard, txn, send_result)
            )

    def _try_complete_now(self, shard: TransactionStateShard, txn: TransactionMetadata) -> None:
        pending_append: PendingAppend | None = None
        try:
            pending_append = shard.write(decide_complete(txn, now_ms=self._context.now_ms()))
        except KafkaError:
            is_done = False  # it is tried again, and told of if that fails, too
        else:
            is_done = pending_append is None
        if not is_done:
            self._start_completion_task(txn, self._write_completion(shard, txn, pending_append))

    def _start_completion_task(
        self, txn: TransactionMetadata, work: Coroutine[Any, Any, None]
    ) -> None:
        self._context.start_task(work, f"completion of {txn.transactional_id}")

    async def _send_markers_and_complete(
        self, shard: TransactionStateShard, txn: TransactionMetadata, send_result: MarkerSendResult
    ) -> None:
        unfinished = await self._unfinished_partitions(txn, send_result)
        if unfinished and shard.is_active:
            names = ", ".join(map(str, sorted(unfinished)))
            log.info("%r is not ended in all partitions yet: %s", txn.transactional_id, names)
        backoffs_s = _retry_backoffs_s()
        while unfinished and shard.is_active:
            await self._context.sleep(next(backoffs_s))
            if shard.is_active:
                unfinished = await self._unfinished_partitions(
                    txn, self._send_markers(shard, txn, unfinished)
                )
        await self._write_completion(shard, txn)

    async def _write_completion(
        self,
        shard: TransactionStateShard,
        txn: TransactionMetadata,
        pending_append: PendingAppend | None = None,
    ) -> None:
        """``waiting``, if it is written already."""
        backoffs_s, is_logged = _retry_backoffs_s(), False
        while shard.is_active:
            try:
                if pending_append is None:
                    pending_append = shard.write(
                        decide_complete(txn, now_ms=self._context.now_ms())
                    )
                await wait_for_append(pending_append)
            except KafkaError as error:
                if not is_logged:  # there may be thousands; each tells it once
                    log.warning("%r is not complete yet: %s", txn.transactional_id, error)
                    is_logged = True
                await self._context.sleep(next(backoffs_s))
                pending_append = None
            else:
                return

    def _send_markers(
        self,
        shard: TransactionStateShard,
        txn: TransactionMetadata,
        partitions: Iterable[TopicPartition],
    ) -> MarkerSendResult:
        by_leader: dict[Node, list[TopicPartition]] = {}
        leaderless: list[TopicPartition] = []
        for each in sorted(partitions):
            node = self._metadata_cache.leader_node(*each, listener=self._listener)
            (leaderless if node is None else by_leader.setdefault(node, [])).append(each)
        epoch = shard.coordinator_epoch
        responses = [
            (led, self._marker_channels.write(node, _marker(txn, led, coordinator_epoch=epoch)))
            for node, led in by_leader.items()
        ]
        return MarkerSendResult(responses, leaderless)

    async def _unfinished_partitions(
        self, txn: TransactionMetadata, send_result: MarkerSendResult
    ) -> frozenset[TopicPartition]:
        """What has to be tried again."""
        unfinished = {each for each in send_result.leaderless if not await self._is_deleted(each)}
        for led, response in send_result.responses:
            codes = response if isinstance(response, Mapping) else await response
            not_done = [each for each in led if codes.get(each) not in _DONE_ERROR_CODES]
            if not_done and codes:
                errors = {
                    str(each): ErrorCode.for_code(codes[each]).name
                    for each in not_done
                    if each in codes
                }
                log.debug("Markers of %r are written again: %s", txn.transactional_id, errors)
            unfinished.update(not_done)
        return frozenset(unfinished)

    async def _is_deleted(self, partition: TopicPartition) -> bool:
        """A partition that has no leader at the moment is not.

        One that is not in its topic is: that may have been deleted, and made again with fewer.
        """
        if self._metadata_cache.partition(*partition) is not None:
            return False
        try:
            return not await self._has_partition(partition)
        except (StoreError, CorruptPayload) as error:
            log.info("Whether there is a partition %s is not known: %s", partition, error)
            return False

    def close(self) -> None:
        self._marker_channels.close()


def _retry_backoffs_s() -> Iterator[float]:
    backoff_s = RETRY_BACKOFF_MIN_S
    while True:
        yield backoff_s
        backoff_s = min(2 * backoff_s, RETRY_BACKOFF_MAX_S)


def _marker(
    txn: TransactionMetadata, partitions: Iterable[TopicPartition], *, coordinator_epoch: int
) -> Marker:
    return Marker(
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        transaction_result=txn.is_commit,
        topics=[
            Marker.Topic(name=topic, partition_indexes=numbers)
            for topic, numbers in group_by_topic(partitions).items()
        ],
        coordinator_epoch=coordinator_epoch,
    )
