"""InitProducerId: an idempotent producer gets an id of its own, a transactional one its epoch.

A transactional id has one producer: whoever comes gets the next epoch, and all before are fenced.
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.broker.call import Call, Parked
from odradek.broker.handlers.transaction_answers import answered, as_known
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.transaction_state import Producer
from odradek.broker.transactions.world import ProducerIds
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.errors import InvalidRequest, KafkaError, code_of

NOTHING = -1


def handle(
    ids: ProducerIds, transactions: TransactionCoordinator, call: Call[InitProducerIdRequest]
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    request = call.request
    if request.transactional_id == "":
        raise InvalidRequest("an empty transactional id")
    if (request.producer_id == NOTHING) != (request.producer_epoch == NOTHING):
        raise InvalidRequest("a producer id without its epoch, or the other way round")
    if request.transactional_id is not None:
        return _init(transactions, request.transactional_id, request)
    producer_id = ids.next_nowait()
    return _answer_later(ids) if producer_id is None else _response(Producer(producer_id, 0))


async def _answer_later(ids: ProducerIds) -> InitProducerIdResponse:
    return _response(Producer(await ids.next(), 0))


def _init(
    transactions: TransactionCoordinator, transactional_id: str, request: InitProducerIdRequest
) -> InitProducerIdResponse | Parked[InitProducerIdResponse]:
    is_known = request.producer_id != NOTHING
    expected = Producer(request.producer_id, request.producer_epoch) if is_known else None
    outcome = transactions.init(
        transactional_id, expected, timeout_ms=request.transaction_timeout_ms
    )
    return answered(outcome, _response)


def _response(producer: Producer) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=0, producer_id=producer.id, producer_epoch=producer.epoch
    )


def refused(call: Call[InitProducerIdRequest], failure: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time_ms=0,
        error_code=code_of(as_known(failure, call)),
        producer_id=-1,
        producer_epoch=-1,
    )
