"""ListTransactions: list the transactional ids that this broker coordinates, with filters."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import NamedTuple

from odradek.broker.groups.consumer.regular_expression import RegexMatcher, compile_regex
from odradek.broker.request import Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.transaction_state import STATES_BY_NAME, TransactionMetadata
from odradek.protocol.api.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from odradek.protocol.errors import CoordinatorLoadInProgress

TransactionListing = ListTransactionsResponse.Transaction
Response = ListTransactionsResponse


class TransactionFilter(NamedTuple):
    """The filters of a request; an empty set matches every transaction."""

    states: frozenset[str]
    producer_ids: frozenset[int]
    #: Matches transactions that have run for longer than this; negative matches all.
    min_duration_ms: int
    #: Matches transactional ids by the rules of RE2.
    transactional_id_pattern: RegexMatcher | None
    now_ms: int

    def matches(self, txn: TransactionMetadata) -> bool:
        return (
            (not self.producer_ids or txn.producer_id in self.producer_ids)
            and (not self.states or txn.state.display_name in self.states)
            and (self.min_duration_ms < 0 or self.now_ms - txn.started_ms > self.min_duration_ms)
            and (
                self.transactional_id_pattern is None
                or bool(self.transactional_id_pattern(txn.transactional_id))
            )
        )


def handle(
    transactions: TransactionCoordinator, request: Request[ListTransactionsRequest]
) -> Response | Awaitable[Response]:
    if transactions.runtime.is_loading:
        raise CoordinatorLoadInProgress()
    body = request.body
    pattern = body.transactional_id_pattern
    transaction_filter = TransactionFilter(
        frozenset(body.state_filters),
        frozenset(body.producer_id_filters),
        body.duration_filter,
        compile_regex(pattern) if pattern else None,
        transactions.context.now_ms(),
    )
    response = Response(
        throttle_time_ms=0,
        error_code=0,
        unknown_state_filters=[
            state for state in body.state_filters if state not in STATES_BY_NAME
        ],
        transaction_states=[],
    )
    if sum(len(shard.transactions) for shard in transactions) > INLINE_ENTRIES_MAX:
        return _respond_sliced(transactions, transaction_filter, response)
    response.transaction_states = [
        *filter(None, _filter_transactions(transactions, transaction_filter))
    ]
    return response


async def _respond_sliced(
    transactions: TransactionCoordinator, transaction_filter: TransactionFilter, response: Response
) -> Response:
    listings = await TimeSlice().collect(_filter_transactions(transactions, transaction_filter))
    response.transaction_states = [*filter(None, listings)]
    return response


def _filter_transactions(
    transactions: TransactionCoordinator, transaction_filter: TransactionFilter
) -> Iterator[TransactionListing | None]:
    """Yield None for a transaction that does not match: the check takes time, too.

    Transactions that are added or removed meanwhile may be missing or included.
    """
    for shard in transactions:
        for txn in [*shard.transactions.values()]:
            yield _transaction_listing(txn) if transaction_filter.matches(txn) else None


def _transaction_listing(txn: TransactionMetadata) -> TransactionListing:
    return TransactionListing(
        transactional_id=txn.transactional_id,
        producer_id=txn.producer_id,
        transaction_state=txn.state.display_name,
    )
