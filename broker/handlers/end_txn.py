"""EndTxn: a producer commits or aborts its transaction.

The response is sent when the decision (PrepareCommit or PrepareAbort) is replicated.  The
coordinator writes the markers to the partitions afterwards.
"""

from __future__ import annotations

from odradek.broker.handlers.transaction_responses import respond_when_complete, to_supported_error
from odradek.broker.request import DelayedOperation, Request
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.decisions import EndTransactionRequest
from odradek.broker.transactions.transaction_state import TV_2, ProducerIdAndEpoch
from odradek.protocol.api.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.errors import KafkaError, code_of

_FIRST_VERSION_WITH_EPOCH_BUMP = 5


def handle(
    transactions: TransactionCoordinator, request: Request[EndTxnRequest]
) -> EndTxnResponse | DelayedOperation[EndTxnResponse]:
    body = request.body
    end_request = EndTransactionRequest(
        ProducerIdAndEpoch(body.producer_id, body.producer_epoch),
        body.committed,
        TV_2 if request.version >= _FIRST_VERSION_WITH_EPOCH_BUMP else 0,
    )
    return respond_when_complete(
        transactions.end_transaction(body.transactional_id, end_request), _build_response
    )


def _build_response(producer: ProducerIdAndEpoch) -> EndTxnResponse:
    return EndTxnResponse(
        throttle_time_ms=0, error_code=0, producer_id=producer.id, producer_epoch=producer.epoch
    )


def error_response(request: Request[EndTxnRequest], error: KafkaError) -> EndTxnResponse:
    return EndTxnResponse(
        throttle_time_ms=0,
        error_code=code_of(to_supported_error(error, request)),
        producer_id=-1,
        producer_epoch=-1,
    )
