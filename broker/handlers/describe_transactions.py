"""DescribeTransactions: the transaction state of transactional ids.

Each id succeeds or fails independently.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from odradek.broker.request import Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.transaction_state import TransactionMetadata
from odradek.protocol.api.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from odradek.protocol.errors import KafkaError, TransactionalIdNotFound, code_of
from odradek.protocol.types import group_by_topic

TransactionDescription = DescribeTransactionsResponse.Transaction
Response = DescribeTransactionsResponse


def handle(
    transactions: TransactionCoordinator, request: Request[DescribeTransactionsRequest]
) -> Response | Awaitable[Response]:
    transactional_ids = request.body.transactional_ids
    descriptions = (
        _describe_transaction(transactions, transactional_id)
        for transactional_id in transactional_ids
    )
    if len(transactional_ids) > INLINE_ENTRIES_MAX:
        return _respond_sliced(descriptions)
    return Response(throttle_time_ms=0, transaction_states=list(descriptions))


async def _respond_sliced(descriptions: Iterable[TransactionDescription]) -> Response:
    return Response(throttle_time_ms=0, transaction_states=await TimeSlice().collect(descriptions))


def _describe_transaction(
    transactions: TransactionCoordinator, transactional_id: str
) -> TransactionDescription:
    try:
        shard = transactions.shard(transactional_id)
        txn = shard.transactions.get(transactional_id)
        if txn is None:
            raise TransactionalIdNotFound(transactional_id)
    except KafkaError as error:
        return _transaction_error(transactional_id, error)
    return _transaction_description(txn)


def _transaction_description(txn: TransactionMetadata) -> TransactionDescription:
    return TransactionDescription(
        error_code=0,
        transactional_id=txn.transactional_id,
        transaction_state=txn.state.display_name,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_start_time_ms=txn.started_ms,
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        topics=[
            TransactionDescription.Topic(topic=topic, partitions=partitions)
            for topic, partitions in group_by_topic(sorted(txn.partitions)).items()
        ],
    )


def _transaction_error(transactional_id: str, error: KafkaError) -> TransactionDescription:
    return TransactionDescription(
        error_code=code_of(error),
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )


def error_response(request: Request[DescribeTransactionsRequest], error: KafkaError) -> Response:
    return Response(
        throttle_time_ms=0,
        transaction_states=[
            _transaction_error(transactional_id, error)
            for transactional_id in request.body.transactional_ids
        ],
    )
