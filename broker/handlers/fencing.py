"""Producers that others have taken the place of, told so in words that their clients know.

Clients before KIP-588 know no PRODUCER_FENCED: to them, any epoch but the present one is invalid.
"""

from __future__ import annotations

from odradek.broker.call import Call
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import InvalidProducerEpoch, KafkaError
from odradek.protocol.schema import Message

#: The first version in which they are told.
_FENCED_FROM = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}


def as_known(failure: KafkaError, call: Call[Message]) -> KafkaError:
    is_new = failure.error is ErrorCode.PRODUCER_FENCED and call.version < _FENCED_FROM[call.key]
    return InvalidProducerEpoch(failure.message) if is_new else failure
