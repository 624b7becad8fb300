"""One step of reconciliation: a member revokes partitions first, then it gets new ones.

    assigned, in the target            ->  stays assigned
    assigned, not in the target        ->  pending revocation; until the member has revoked these
                                           partitions, it gets no new ones
    in the target, free                ->  becomes assigned
    in the target, owned by another    ->  unreleased; becomes assigned by a later heartbeat

A member with partitions to revoke stays in its epoch, or moves to the next one if it has just
revoked others.  Any other member moves to the target's epoch.  A member has revoked a partition
when a heartbeat lists its owned partitions without it.

Invariant: a partition is assigned only if no other member owns it.  No partition ever has two
owners.

Kafka: CurrentAssignmentBuilder.

Owner: none; pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from odradek.broker.groups.consumer.member import CurrentAssignment, MemberState
from odradek.broker.groups.consumer.partitions import NO_PARTITIONS, Partitions, TopicIdPartition
from odradek.protocol.errors import FencedMemberEpoch

#: For a member with nothing to revoke: whether it waits for unreleased partitions -> its state
_STATE_BY_HAS_UNRELEASED: Mapping[bool, MemberState] = {
    False: MemberState.STABLE,
    True: MemberState.UNRELEASED_PARTITIONS,
}


@dataclass(frozen=True, slots=True)
class TargetAssignment:
    """The target partitions of a member, and the epoch of the target assignment."""

    epoch: int
    partitions: Partitions


def reconcile(
    current: CurrentAssignment,
    target: TargetAssignment,
    *,
    is_free: Callable[[TopicIdPartition], bool],
    owned_partitions: Partitions | None,
) -> CurrentAssignment:
    """Return the assignment after one step.

    ``owned_partitions`` are those that the member reports; None if it reports nothing.
    """
    match current.state:
        case MemberState.STABLE if current.epoch == target.epoch:
            return current
        case MemberState.UNREVOKED_PARTITIONS if _owns_revoked_partitions(
            current.pending_revocation, owned_partitions
        ):
            return current
        case MemberState.UNREVOKED_PARTITIONS:
            return _compute_next_assignment(
                current, target, is_free, owned_partitions, unrevoked_epoch=current.epoch + 1
            )
        case MemberState.UNKNOWN if owned_partitions is None or owned_partitions:
            raise FencedMemberEpoch(
                "The member state is unknown to this broker: the member must rejoin."
            )
        case _:
            return _compute_next_assignment(
                current, target, is_free, owned_partitions, unrevoked_epoch=current.epoch
            )


def _compute_next_assignment(
    current: CurrentAssignment,
    target: TargetAssignment,
    is_free: Callable[[TopicIdPartition], bool],
    owned_partitions: Partitions | None,
    unrevoked_epoch: int,
) -> CurrentAssignment:
    """``unrevoked_epoch`` is the epoch of the result if the member has partitions to revoke."""
    retained = current.assigned & target.partitions
    to_revoke = current.assigned - retained
    if to_revoke and _owns_revoked_partitions(to_revoke, owned_partitions):
        return CurrentAssignment(
            epoch=unrevoked_epoch,
            previous_epoch=current.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=retained,
            pending_revocation=to_revoke,
        )
    missing = target.partitions - retained
    newly_assigned = frozenset(filter(is_free, missing))
    return CurrentAssignment(
        epoch=target.epoch,
        previous_epoch=current.epoch,
        state=_STATE_BY_HAS_UNRELEASED[len(newly_assigned) < len(missing)],
        assigned=retained | newly_assigned,
        pending_revocation=NO_PARTITIONS,
    )


def _owns_revoked_partitions(
    pending_revocation: Partitions, owned_partitions: Partitions | None
) -> bool:
    return owned_partitions is None or not pending_revocation.isdisjoint(owned_partitions)
