"""Which brokers have a replica of a partition, also while they are being exchanged for others.

The first of the target is the preferred leader.  While a reassignment is under way all of them are
replicas: those that stay, those being added and those being removed.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """The replicas of one partition, in the order in which they are preferred."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def origin_replicas(self) -> tuple[int, ...]:
        """As it was before, though perhaps in another order."""
        return tuple(broker for broker in self.replicas if broker not in self.adding_replicas)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """As it will be."""
        return tuple(broker for broker in self.replicas if broker not in self.removing_replicas)

    def reassign_to(self, target_replicas: Sequence[int]) -> ReplicaAssignment:
        """On the way to another target, which comes first so that its order is known."""
        origin = self.origin_replicas
        replicas = tuple(dict.fromkeys((*target_replicas, *origin)))
        return ReplicaAssignment(
            replicas,
            adding_replicas=tuple(broker for broker in replicas if broker not in origin),
            removing_replicas=tuple(broker for broker in replicas if broker not in target_replicas),
        )

    def remove_replica(self, broker_id: int) -> ReplicaAssignment:
        return ReplicaAssignment(
            tuple(each for each in self.replicas if each != broker_id),
            tuple(each for each in self.adding_replicas if each != broker_id),
            tuple(each for each in self.removing_replicas if each != broker_id),
        )
