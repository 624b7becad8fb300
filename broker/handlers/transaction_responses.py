"""What handlers of transactions have in common: steps that must be waited for, producers fenced.

Clients before KIP-588 know no PRODUCER_FENCED: to them, any epoch but the present one is invalid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from odradek.broker.call import Call, Parked
from odradek.broker.transactions.coordinator import Later
from odradek.broker.transactions.transaction_state import Producer
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidProducerEpoch, KafkaError
from odradek.protocol.schema import Message

Response = TypeVar("Response", bound=Message)

#: The first version in which producers are told that they are fenced.
_FENCED_FROM = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}


def answered(
    outcome: Producer | Later[Producer], respond: Callable[[Producer], Response]
) -> Response | Parked[Response]:
    """At once, if the step has taken effect; what waits does so whether or not the client stays."""
    if isinstance(outcome, Producer):
        return respond(outcome)

    async def later() -> Response:
        return respond(await outcome())

    return Parked(later, ends_alone=True)


def as_known(failure: KafkaError, call: Call[Any]) -> KafkaError:
    """In words that the client knows."""
    is_new = failure.error is ErrorCode.PRODUCER_FENCED and call.version < _FENCED_FROM[call.key]
    return InvalidProducerEpoch(failure.message) if is_new else failure
