"""What can a configuration be of?  A request names it by a type and a name."""

from __future__ import annotations

import re
from enum import Enum

from odradek.protocol.errors import InvalidRequest


class ResourceType(Enum):
    """The numbers are the protocol's."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32

    @classmethod
    def of(cls, number: int) -> ResourceType:
        """UNKNOWN for any other."""
        return cls(number) if number in _NUMBERS else cls.UNKNOWN


_NUMBERS = frozenset(each.value for each in ResourceType)
_NUMBER = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)


def check_is_this_broker(name: str, broker_id: int) -> None:
    """A broker answers for itself alone: its file is on no other machine."""
    if not _NUMBER.fullmatch(name):
        raise InvalidRequest(f"A broker is named by its id, not by '{name}'.")
    if int(name) != broker_id:
        raise InvalidRequest(f"This is broker {broker_id}; ask broker {name} itself.")
