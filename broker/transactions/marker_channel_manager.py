"""Writes markers to the partitions of a prepared transaction, and then completes the transaction.

Kafka: TransactionMarkerChannelManager.

    prepared     group the partitions by leader, including this broker
    sent         each other broker has one request in flight; markers that arrive meanwhile are
                 sent in the next one.  This broker writes its markers in the same call
    response     a partition that has its marker, or is deleted, is done
    otherwise    retry with the leader that the partition has by then, until all partitions are done
    completed    append the completed state to the log of the coordinator

This ends when the transaction is complete, or when this broker is no longer its coordinator.  The
next coordinator reads from the log that the transaction is prepared, and does all of this again.  A
duplicate marker does no harm.

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

log = logging.getLogger("kafka.coordinator.transaction")

Marker = WriteTxnMarkersRequest.Marker

#: The backoff doubles with each retry, up to its maximum.  Kafka retries at once, and waits in its
#: network client instead.
RETRY_BACKOFF_MIN_S, RETRY_BACKOFF_MAX_S = 0.1, 1.0

#: The partition needs no marker: it has one, it cannot contain transactional records, or it knows a
#: later epoch of the producer, before which every transaction has ended.
_DONE_ERROR_CODES = frozenset(
    {
        ErrorCode.NONE.code,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT.code,
        ErrorCode.UNSUPPORTED_VERSION.code,
        ErrorCode.INVALID_PRODUCER_EPOCH.code,
    }
)


class MarkerSender(Protocol):
    """Sends markers to the leaders of partitions."""

    def write(
        self, node: Node, marker: Marker, /
    ) -> PartitionErrorCodes | Awaitable[PartitionErrorCodes]: ...

    def close(self) -> None: ...


class ClusterMetadata(Protocol):
    """The part of the metadata cache that this module needs."""

    def partition(self, topic: str, partition: int, /) -> PartitionState | None: ...

    def leader_node(self, topic: str, partition: int, /, *, listener: str) -> Node | None: ...


class MarkerSendResult(NamedTuple):
    """The error codes, known or awaited, of the partitions by leader; and those without leader."""

    responses: Sequence[
        tuple[Sequence[TopicPartition], PartitionErrorCodes | Awaitable[PartitionErrorCodes]]
    ]
    leaderless: Sequence[TopicPartition]

    @property
    def is_done(self) -> bool:
        """Whether all partitions are known to be done."""
        return not self.leaderless and all(
            isinstance(codes, Mapping) and all(codes.get(each) in _DONE_ERROR_CODES for each in led)
            for led, codes in self.responses
        )


class TransactionMarkerChannelManager:
    """Completes prepared transactions."""

    def __init__(
        self,
        metadata_cache: ClusterMetadata,
        context: TransactionContext,
        marker_channels: MarkerSender,
        *,
        listener: str,
        has_partition: Callable[[TopicPartition], Awaitable[bool]],
    ) -> None:
        """``has_partition`` reads the metadata store: the metadata cache may be incomplete."""
        self._metadata_cache = metadata_cache
        self._context = context
        self._marker_channels = marker_channels
        self._listener = listener
        self._has_partition = has_partition

    def complete_transaction(self, shard: TransactionStateShard, txn: TransactionMetadata) -> None:
        """Start to complete the transaction; the caller does not wait.

        It is complete on return if nothing has to be awaited: if this broker leads all partitions
        and is their only in-sync replica.
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
            is_done = False  # the task retries, and logs the error if it fails again
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
            log.info("Retrying markers of transactionalId %r for %s", txn.transactional_id, names)
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
        """``pending_append`` is given if the completion is already written."""
        backoffs_s, is_logged = _retry_backoffs_s(), False
        while shard.is_active:
            try:
                if pending_append is None:
                    pending_append = shard.write(
                        decide_complete(txn, now_ms=self._context.now_ms())
                    )
                await wait_for_append(pending_append)
            except KafkaError as error:
                if not is_logged:  # once per transaction: there may be thousands
                    log.warning(
                        "Failed to append completion of transactionalId %r, retrying: %s",
                        txn.transactional_id,
                        error,
                    )
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
        """Return the partitions that have to be retried."""
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
                log.debug(
                    "Retrying markers of transactionalId %r after errors: %s",
                    txn.transactional_id,
                    errors,
                )
            unfinished.update(not_done)
        return frozenset(unfinished)

    async def _is_deleted(self, partition: TopicPartition) -> bool:
        """A partition that only lacks a leader is not deleted.

        A partition that its topic does not have is deleted: the topic may have been deleted and
        created again with fewer partitions.
        """
        if self._metadata_cache.partition(*partition) is not None:
            return False
        try:
            return not await self._has_partition(partition)
        except (StoreError, CorruptPayload) as error:
            log.info("Failed to check whether partition %s exists: %s", partition, error)
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
