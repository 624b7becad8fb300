"""EndTxn: a producer commits or aborts its transaction.

Answered once it is certain how the transaction ends; the partitions learn of it afterwards.
"""

from __future__ import annotations

from odradek.broker.call import Call, Parked
from odradek.broker.handlers.transaction_answers import answered, as_known
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.decisions import Ending
from odradek.broker.transactions.transaction_state import EPOCH_FOR_EACH, Producer
from odradek.protocol.api.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.errors import KafkaError, code_of

_FIRST_VERSION_WITH_EPOCHS = 5


def handle(
    transactions: TransactionCoordinator, call: Call[EndTxnRequest]
) -> EndTxnResponse | Parked[EndTxnResponse]:
    request = call.request
    ending = Ending(
        Producer(request.producer_id, request.producer_epoch),
        request.committed,
        EPOCH_FOR_EACH if call.version >= _FIRST_VERSION_WITH_EPOCHS else 0,
    )
    return answered(transactions.end(request.transactional_id, ending), _response)


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
