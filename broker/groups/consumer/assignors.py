"""The assignors by name, and by the names that ``group.consumer.assignors`` may have for them.

The first of the setting is the default; members may ask for any other of it.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from odradek.broker.groups.consumer import assign_range, assign_uniform
from odradek.broker.groups.consumer.assignor import Assignor

ASSIGNORS: Mapping[str, Assignor] = {
    "uniform": assign_uniform.assign,
    "range": assign_range.assign,
}
#: Kafka's classes, which its own default names; since 4.0 the short names will do there too.
_KAFKA_CLASSES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}


@dataclass(frozen=True, slots=True)
class Assignors:
    """Those that members may choose from; ``names`` begins with the default."""

    names: tuple[str, ...] = tuple(ASSIGNORS)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def preferred(self, wishes: Iterable[str | None]) -> str:
        """What most members ask for; among equals, what the setting names first."""
        votes = Counter(each for each in wishes if each in self.names)
        return max(self.names, key=lambda name: votes[name])


@cache
def assignors_of(setting: tuple[str, ...]) -> Assignors:
    """Raises ValueError for one that there is not."""
    names = tuple(dict.fromkeys(_KAFKA_CLASSES.get(each, each) for each in setting))
    for name in names:
        if name not in ASSIGNORS:
            raise ValueError(f"{name} is none of {', '.join(ASSIGNORS)}")
    return Assignors(names or tuple(ASSIGNORS))
