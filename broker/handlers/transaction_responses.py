"""Shared by the transaction handlers: delayed responses, and the error of fenced producers.

Clients before KIP-588 do not know PRODUCER_FENCED.  They get INVALID_PRODUCER_EPOCH for any epoch
but the current one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from odradek.broker.request import DelayedOperation, Request
from odradek.broker.transactions.coordinator import Deferred
from odradek.broker.transactions.transaction_state import ProducerIdAndEpoch
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidProducerEpoch, KafkaError
from odradek.protocol.schema import Message

Response = TypeVar("Response", bound=Message)

#: The first version whose clients know PRODUCER_FENCED.
_FIRST_VERSION_WITH_PRODUCER_FENCED = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}


def respond_when_complete(
    result: ProducerIdAndEpoch | Deferred[ProducerIdAndEpoch],
    build_response: Callable[[ProducerIdAndEpoch], Response],
) -> Response | DelayedOperation[Response]:
    """Respond now, or when the transition is complete, which does not depend on the client."""
    if isinstance(result, ProducerIdAndEpoch):
        return build_response(result)

    async def respond() -> Response:
        return build_response(await result())

    return DelayedOperation(respond, completes_on_shutdown=True)


def to_supported_error(error: KafkaError, request: Request[Any]) -> KafkaError:
    """Replace PRODUCER_FENCED if the client does not know it."""
    is_new = (
        error.error_code is ErrorCode.PRODUCER_FENCED
        and request.version < _FIRST_VERSION_WITH_PRODUCER_FENCED[request.api_key]
    )
    return InvalidProducerEpoch(error.message) if is_new else error
