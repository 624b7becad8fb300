"""The assignors by name, and by the class names that ``group.consumer.assignors`` may contain.

The first assignor of the setting is the default; members may request any of them.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from odradek.broker.groups.consumer import range_assignor, uniform_assignor
from odradek.broker.groups.consumer.assignor import Assignor

ASSIGNORS: Mapping[str, Assignor] = {
    "uniform": uniform_assignor.assign,
    "range": range_assignor.assign,
}
#: Kafka's class names, which are its default value.  Since 4.0 Kafka accepts the short names too.
_NAMES_BY_KAFKA_CLASS = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}


@dataclass(frozen=True, slots=True)
class Assignors:
    """The assignors that members may request; the first of ``names`` is the default."""

    names: tuple[str, ...] = tuple(ASSIGNORS)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def preferred(self, requested_names: Iterable[str | None]) -> str:
        """Return the name that most members request; on a tie, the first in the setting."""
        votes = Counter(name for name in requested_names if name in self.names)
        return max(self.names, key=lambda name: votes[name])


@cache
def parse_assignors(setting: tuple[str, ...]) -> Assignors:
    """Parse the setting; raise ValueError for an unknown assignor."""
    names = tuple(dict.fromkeys(_NAMES_BY_KAFKA_CLASS.get(name, name) for name in setting))
    for name in names:
        if name not in ASSIGNORS:
            raise ValueError(f"assignor {name}: must be one of {', '.join(ASSIGNORS)}")
    return Assignors(names or tuple(ASSIGNORS))
