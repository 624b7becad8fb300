"""DescribeTransactions: the state of transactional ids, each alone."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from odradek.broker.call import Call
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.transaction_state import Transaction
from odradek.broker.turns import FEW, Turn
from odradek.protocol.api.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from odradek.protocol.errors import KafkaError, TransactionalIdNotFound, code_of
from odradek.protocol.types import by_topic

Shown = DescribeTransactionsResponse.Transaction
Response = DescribeTransactionsResponse


def handle(
    transactions: TransactionCoordinator, call: Call[DescribeTransactionsRequest]
) -> Response | Awaitable[Response]:
    asked = call.request.transactional_ids
    described = (_described(transactions, each) for each in asked)
    if len(asked) > FEW:
        return _answer_in_turns(described)
    return Response(throttle_time_ms=0, transaction_states=list(described))


async def _answer_in_turns(described: Iterable[Shown]) -> Response:
    return Response(throttle_time_ms=0, transaction_states=await Turn().listed(described))


def _described(transactions: TransactionCoordinator, transactional_id: str) -> Shown:
    try:
        shard = transactions.shard(transactional_id)
        found = shard.transactions.get(transactional_id)
        if found is None:
            raise TransactionalIdNotFound(transactional_id)
    except KafkaError as failure:
        return _unknown(transactional_id, failure)
    return _shown(found)


def _shown(txn: Transaction) -> Shown:
    return Shown(
        error_code=0,
        transactional_id=txn.transactional_id,
        transaction_state=txn.state.shown,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_start_time_ms=txn.started_ms,
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        topics=[
            Shown.Topic(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(sorted(txn.partitions)).items()
        ],
    )


def _unknown(transactional_id: str, failure: KafkaError) -> Shown:
    return Shown(
        error_code=code_of(failure),
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )


def refused(call: Call[DescribeTransactionsRequest], failure: KafkaError) -> Response:
    """All of it, for one reason."""
    return Response(
        throttle_time_ms=0,
        transaction_states=[_unknown(each, failure) for each in call.request.transactional_ids],
    )
