"""EndTxn: a producer commits or aborts its transaction.

Answered once it is certain how the transaction ends; the partitions learn of it afterwards.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from odradek.broker.call import Call, Parked
from odradek.broker.handlers.fencing import as_known
from odradek.broker.transactions.coordinator import Later
from odradek.broker.transactions.decisions import Ending
from odradek.broker.transactions.transaction_state import EPOCH_FOR_EACH, Producer
from odradek.protocol.api.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.errors import KafkaError, code_of

_FIRST_VERSION_WITH_EPOCHS = 5


class Transactions(Protocol):
    """The part of the coordinator that is needed here."""

    def end(self, transactional_id: str, ending: Ending, /) -> Producer | Later[Producer]: ...


def handle(
    transactions: Transactions, call: Call[EndTxnRequest]
) -> EndTxnResponse | Parked[EndTxnResponse]:
    request = call.request
    ending = Ending(
        Producer(request.producer_id, request.producer_epoch),
        request.committed,
        EPOCH_FOR_EACH if call.version >= _FIRST_VERSION_WITH_EPOCHS else 0,
    )
    outcome = transactions.end(request.transactional_id, ending)
    if isinstance(outcome, Producer):
        return _response(outcome)
    return Parked(partial(_answer_later, outcome), ends_alone=True)


async def _answer_later(outcome: Later[Producer]) -> EndTxnResponse:
    return _response(await outcome())


def _response(producer: Producer) -> EndTxnResponse:
    return EndTxnResponse(
        throttle_time_ms=0, error_code=0, producer_id=producer.id, producer_epoch=producer.epoch
    )


def refused(call: Call[EndTxnRequest], failure: KafkaError) -> EndTxnResponse:
    return EndTxnResponse(
        throttle_time_ms=0,
        error_code=code_of(as_known(failure, call)),
        producer_id=-1,
        producer_epoch=-1,
    )
