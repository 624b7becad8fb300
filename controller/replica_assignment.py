"""Which brokers have a replica of a partition, also while they are being exchanged for others.

The first of the target is the preferred leader.  While a reassignment is under way all of them are
replicas: those that stay, those being added and those being removed.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Assignment:
    """The replicas of one partition, in the order in which they are preferred."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """As it was before, though perhaps in another order."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """As it will be."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    def reassigned_to(self, target: Sequence[int]) -> Assignment:
        """On the way to another target, which comes first so that its order is known."""
        origin = self.origin
        replicas = tuple(dict.fromkeys((*target, *origin)))
        return Assignment(
            replicas,
            adding=tuple(broker for broker in replicas if broker not in origin),
            removing=tuple(broker for broker in replicas if broker not in target),
        )

    def without(self, broker: int) -> Assignment:
        return Assignment(
            tuple(each for each in self.replicas if each != broker),
            tuple(each for each in self.adding if each != broker),
            tuple(each for each in self.removing if each != broker),
        )
