"""The resource types that a config can belong to; a request names a resource by type and name."""

from __future__ import annotations

import re
from enum import Enum

from odradek.protocol.errors import InvalidRequest


class ResourceType(Enum):
    """Kafka: ConfigResource.Type; the numbers are those of the protocol."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32

    @classmethod
    def for_id(cls, type_id: int) -> ResourceType:
        """Return the type, or UNKNOWN for any other number."""
        return cls(type_id) if type_id in _TYPE_IDS else cls.UNKNOWN


_TYPE_IDS = frozenset(resource_type.value for resource_type in ResourceType)
_BROKER_ID = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)


def check_is_this_broker(name: str, broker_id: int) -> None:
    """Reject a request for another broker: a broker has only its own properties file."""
    if not _BROKER_ID.fullmatch(name):
        raise InvalidRequest(f"Broker id must be an integer, but it is: {name}")
    if int(name) != broker_id:
        raise InvalidRequest(f"Unexpected broker id, expected {broker_id}, but received {name}")
