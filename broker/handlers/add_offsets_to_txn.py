"""AddOffsetsToTxn: a producer adds the offsets of a group to its transaction.

The handler adds the partition of ``__consumer_offsets`` that stores the offsets of the group.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from odradek.broker.handlers.transaction_responses import to_supported_error
from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS
from odradek.broker.request import DelayedOperation, Request
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.shard import PendingAppend, wait_for_append
from odradek.broker.transactions.transaction_state import ProducerIdAndEpoch
from odradek.protocol.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.protocol.errors import KafkaError, code_of
from odradek.protocol.types import TopicPartition


class GroupPartitioner(Protocol):
    """The mapping from a group to its partition of ``__consumer_offsets``."""

    def partition_for(self, group_id: str, /) -> int: ...


def handle(
    transactions: TransactionCoordinator,
    groups: GroupPartitioner,
    request: Request[AddOffsetsToTxnRequest],
) -> AddOffsetsToTxnResponse | DelayedOperation[AddOffsetsToTxnResponse]:
    body = request.body
    offsets_partition = TopicPartition(CONSUMER_OFFSETS, groups.partition_for(body.group_id))
    # Producers with transaction version 2 do not send this: TxnOffsetCommit adds the partition.
    pending_append = transactions.add_partitions(
        body.transactional_id,
        ProducerIdAndEpoch(body.producer_id, body.producer_epoch),
        {offsets_partition},
        client_transaction_version=0,
    )
    if pending_append is not None:
        return DelayedOperation(
            partial(_respond_when_replicated, pending_append), completes_on_shutdown=True
        )
    return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=0)


async def _respond_when_replicated(pending_append: PendingAppend) -> AddOffsetsToTxnResponse:
    await wait_for_append(pending_append)
    return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=0)


def error_response(
    request: Request[AddOffsetsToTxnRequest], error: KafkaError
) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(
        throttle_time_ms=0, error_code=code_of(to_supported_error(error, request))
    )
