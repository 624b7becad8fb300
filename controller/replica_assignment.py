"""The replicas of a partition, also during a reassignment.  Kafka: ReplicaAssignment.

The first target replica is the preferred leader.  During a reassignment ``replicas`` contains every
replica: those that remain, those being added and those being removed.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """The replicas of one partition, in order of preference."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def origin_replicas(self) -> tuple[int, ...]:
        """The replicas before the reassignment, possibly in another order."""
        return tuple(broker for broker in self.replicas if broker not in self.adding_replicas)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(broker for broker in self.replicas if broker not in self.removing_replicas)

    def reassign_to(self, target_replicas: Sequence[int]) -> ReplicaAssignment:
        """Start a reassignment; the target replicas come first, which preserves their order."""
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
