"""AddOffsetsToTxn: a producer adds the offsets of a group to its transaction.

They are kept in one partition of ``__consumer_offsets``, which is added like any other.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from odradek.broker.call import Call, Parked
from odradek.broker.handlers.transaction_answers import as_known
from odradek.broker.metadata.internal_topics import CONSUMER_OFFSETS
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.shard import Waiting, wait_for
from odradek.broker.transactions.transaction_state import Producer
from odradek.protocol.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.protocol.errors import KafkaError, code_of
from odradek.protocol.types import TopicPartition


class Groups(Protocol):
    """Which partition keeps the offsets of a group."""

    def partition_of(self, group_id: str, /) -> int: ...


def handle(
    transactions: TransactionCoordinator, groups: Groups, call: Call[AddOffsetsToTxnRequest]
) -> AddOffsetsToTxnResponse | Parked[AddOffsetsToTxnResponse]:
    request = call.request
    offsets = TopicPartition(CONSUMER_OFFSETS, groups.partition_of(request.group_id))
    # Who speaks version 2 does not ask: offsets that are committed are added by that.
    waiting = transactions.add(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        {offsets},
        client_version=0,
    )
    if waiting is not None:
        return Parked(partial(_answer_later, waiting), ends_alone=True)
    return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=0)


async def _answer_later(waiting: Waiting) -> AddOffsetsToTxnResponse:
    await wait_for(waiting)
    return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=0)


def refused(call: Call[AddOffsetsToTxnRequest], failure: KafkaError) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=code_of(as_known(failure, call)))
