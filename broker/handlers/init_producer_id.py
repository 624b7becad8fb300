"""InitProducerId: give an idempotent producer an id, and a transactional producer its epoch.

A transactional id has one producer: the newest one gets the next epoch, and all earlier ones are
fenced.
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.broker.handlers.transaction_responses import respond_when_complete, to_supported_error
from odradek.broker.request import DelayedOperation, Request
from odradek.broker.transactions.context import ProducerIdGenerator
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.transaction_state import ProducerIdAndEpoch
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.errors import InvalidRequest, KafkaError, code_of

UNSET = -1


def handle(
    producer_id_manager: ProducerIdGenerator,
    transactions: TransactionCoordinator,
    request: Request[InitProducerIdRequest],
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    body = request.body
    if body.transactional_id == "":
        raise InvalidRequest("transactional id must not be empty")
    if (body.producer_id == UNSET) != (body.producer_epoch == UNSET):
        raise InvalidRequest("producer id and producer epoch must both be set, or neither")
    if body.transactional_id is not None:
        return _init_transactional(transactions, body.transactional_id, body)
    producer_id = producer_id_manager.generate_producer_id_nowait()
    return (
        _generate_producer_id(producer_id_manager)
        if producer_id is None
        else _build_response(ProducerIdAndEpoch(producer_id, 0))
    )


async def _generate_producer_id(producer_id_manager: ProducerIdGenerator) -> InitProducerIdResponse:
    return _build_response(ProducerIdAndEpoch(await producer_id_manager.generate_producer_id(), 0))


def _init_transactional(
    transactions: TransactionCoordinator, transactional_id: str, body: InitProducerIdRequest
) -> InitProducerIdResponse | DelayedOperation[InitProducerIdResponse]:
    has_producer = body.producer_id != UNSET
    expected = ProducerIdAndEpoch(body.producer_id, body.producer_epoch) if has_producer else None
    result = transactions.init_producer_id(
        transactional_id, expected, timeout_ms=body.transaction_timeout_ms
    )
    return respond_when_complete(result, _build_response)


def _build_response(producer: ProducerIdAndEpoch) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=0, producer_id=producer.id, producer_epoch=producer.epoch
    )


def error_response(
    request: Request[InitProducerIdRequest], error: KafkaError
) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time_ms=0,
        error_code=code_of(to_supported_error(error, request)),
        producer_id=-1,
        producer_epoch=-1,
    )
