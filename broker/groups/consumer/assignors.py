"""The assignors by name, and by the names that ``group.consumer.assignors`` may have for them.

The first of the setting is the default; members may ask for any other of it.

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
#: Kafka's classes, which its own default names; since 4.0 the short names will do there too.
_NAMES_BY_KAFKA_CLASS = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}


@dataclass(frozen=True, slots=True)
class Assignors:
    """Those that members may choose from; ``names`` begins with the default."""

    names: tuple[str, ...] = tuple(ASSIGNORS)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def preferred(self, requested_names: Iterable[str | None]) -> str:
        """What most members ask for; among equals, what the setting names first."""
        votes = Counter(name for name in requested_names if name in self.names)
        return max(self.names, key=lambda name: votes[name])


@cache
def parse_assignors(setting: tuple[str, ...]) -> Assignors:
    """Raises ValueError for one that there is not."""
    names = tuple(dict.fromkeys(_NAMES_BY_KAFKA_CLASS.get(name, name) for name in setting))
    for name in names:
        if name not in ASSIGNORS:
            raise ValueError(f"assignor {name}: must be one of {', '.join(ASSIGNORS)}")
    return Assignors(names or tuple(ASSIGNORS))
