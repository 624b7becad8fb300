"""InitProducerId: an idempotent producer gets an id of its own.

A transactional one needs a coordinator, and there is none yet.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from odradek.broker.call import Call
from odradek.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.errors import CoordinatorNotAvailable, InvalidRequest, KafkaError, code_of

NOTHING = -1


class ProducerIds(Protocol):
    """Where ids come from."""

    def next_nowait(self) -> int | None: ...

    async def next(self) -> int: ...


def handle(
    ids: ProducerIds, call: Call[InitProducerIdRequest]
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if call.request.transactional_id == "":
        raise InvalidRequest("an empty transactional id")
    if (call.request.producer_id == NOTHING) != (call.request.producer_epoch == NOTHING):
        raise InvalidRequest("a producer id without its epoch, or the other way round")
    if call.request.transactional_id is not None:
        raise CoordinatorNotAvailable("there is no transaction coordinator")
    producer_id = ids.next_nowait()
    return _answer_later(ids) if producer_id is None else _response(producer_id)


async def _answer_later(ids: ProducerIds) -> InitProducerIdResponse:
    return _response(await ids.next())


def _response(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=0, producer_id=producer_id, producer_epoch=0
    )


def refused(call: Call[InitProducerIdRequest], failure: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=code_of(failure), producer_id=-1, producer_epoch=-1
    )
