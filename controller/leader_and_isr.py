"""Leader, ISR and epochs of a partition.  Kafka: LeaderAndIsr, LeaderIsrAndControllerEpoch.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

NO_LEADER = -1
#: The leader in an UpdateMetadata request for a topic that is being deleted.
LEADER_DURING_DELETE = -2
#: The leader epoch in a StopReplica request for a topic that is being deleted.
EPOCH_DURING_DELETE = -2


@dataclass(frozen=True, slots=True)
class LeaderIsrAndControllerEpoch:
    """The state of a partition as the store holds it."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    #: The version of the znode; conditional writes use it to detect concurrent changes.
    partition_epoch: int
    #: Set by an unclean election, until the leader reports that it has recovered.
    is_recovering: bool = False

    def new_leader_and_isr(
        self, leader: int, isr: tuple[int, ...], *, is_recovering: bool
    ) -> LeaderIsrAndControllerEpoch:
        """Increment the leader epoch; the write sets the controller and the partition epoch."""
        return replace(
            self,
            leader=leader,
            leader_epoch=self.leader_epoch + 1,
            isr=isr,
            is_recovering=is_recovering,
        )

    def new_epoch(self) -> LeaderIsrAndControllerEpoch:
        return replace(self, leader_epoch=self.leader_epoch + 1)

    def with_isr(self, isr: tuple[int, ...]) -> LeaderIsrAndControllerEpoch:
        """Keep the leader epoch: only the ISR changes."""
        return replace(self, isr=isr)
