"""ListTransactions: the transactional ids that this broker coordinates, all or some of them."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import NamedTuple

from odradek.broker.call import Call
from odradek.broker.groups.consumer.regular_expression import Matches, compiled
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.transaction_state import BY_NAME, Transaction
from odradek.broker.turns import FEW, Turn
from odradek.protocol.api.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from odradek.protocol.errors import CoordinatorLoadInProgress

Shown = ListTransactionsResponse.Transaction
Response = ListTransactionsResponse


class Wanted(NamedTuple):
    """Empty for any."""

    states: frozenset[str]
    producer_ids: frozenset[int]
    #: Running for longer than this; negative for any.
    duration_ms: int
    #: Of their ids, by the rules of RE2.
    pattern: Matches | None
    now_ms: int

    def has(self, txn: Transaction) -> bool:
        return (
            (not self.producer_ids or txn.producer_id in self.producer_ids)
            and (not self.states or txn.state.shown in self.states)
            and (self.duration_ms < 0 or self.now_ms - txn.started_ms > self.duration_ms)
            and (self.pattern is None or bool(self.pattern(txn.transactional_id)))
        )


def handle(
    transactions: TransactionCoordinator, call: Call[ListTransactionsRequest]
) -> Response | Awaitable[Response]:
    if transactions.shards.is_loading:
        raise CoordinatorLoadInProgress()
    request = call.request
    expression = request.transactional_id_pattern
    wanted = Wanted(
        frozenset(request.state_filters),
        frozenset(request.producer_id_filters),
        request.duration_filter,
        compiled(expression) if expression else None,
        transactions.world.now_ms(),
    )
    response = Response(
        throttle_time_ms=0,
        error_code=0,
        unknown_state_filters=[each for each in request.state_filters if each not in BY_NAME],
        transaction_states=[],
    )
    if sum(len(shard.transactions) for shard in transactions) > FEW:
        return _answer_in_turns(transactions, wanted, response)
    response.transaction_states = [*filter(None, _looked_at(transactions, wanted))]
    return response


async def _answer_in_turns(
    transactions: TransactionCoordinator, wanted: Wanted, response: Response
) -> Response:
    looked_at = await Turn().listed(_looked_at(transactions, wanted))
    response.transaction_states = [*filter(None, looked_at)]
    return response


def _looked_at(transactions: TransactionCoordinator, wanted: Wanted) -> Iterator[Shown | None]:
    """One by one, None for what is not wanted: to find that out takes its time as well.

    What comes or goes meanwhile may be missed, or shown.
    """
    for shard in transactions:
        for txn in [*shard.transactions.values()]:
            yield _shown(txn) if wanted.has(txn) else None


def _shown(txn: Transaction) -> Shown:
    return Shown(
        transactional_id=txn.transactional_id,
        producer_id=txn.producer_id,
        transaction_state=txn.state.shown,
    )
