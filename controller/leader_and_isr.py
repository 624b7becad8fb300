"""Who leads a partition, who is in sync with the leader, and since when.

Owner: none; immutable, any thread.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

NO_LEADER = -1
#: What an UpdateMetadata carries instead of a leader for a topic that is going.
LEADER_DURING_DELETE = -2
#: What a StopReplica carries instead of an epoch for a topic that is going.
EPOCH_DURING_DELETE = -2


@dataclass(frozen=True, slots=True)
class LeaderIsrAndControllerEpoch:
    """A partition's state as the store has it."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    #: The version of the node, by which any other change would be noticed.
    partition_epoch: int
    #: After an unclean election, until the leader has said that it is done.
    is_recovering: bool = False

    def new_leader_and_isr(
        self, leader: int, isr: tuple[int, ...], *, is_recovering: bool
    ) -> LeaderIsrAndControllerEpoch:
        """In a new epoch; the controller's epoch and the version follow when it is written."""
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
        """As the leader itself has it, in the same epoch."""
        return replace(self, isr=isr)
