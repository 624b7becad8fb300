"""How a member is led from what it has to what it shall have: it gives up first, then it gets.

    has, shall have       ->  what it goes on with
    has, shall not have   ->  what it must give up; until it says that it has, nothing else happens
    shall have, is free   ->  what it gets
    shall have, is held   ->  what it waits for; it gets it by a later heartbeat

A member that has something to give up stays in its epoch; all others are moved to the target's.  It
has given up a partition when a heartbeat of its names the partitions it has, and this is not one.

Invariant: what a member is given, nobody holds.  So no partition is ever held by two.

Owner: none; pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from odradek.broker.groups.consumer.member import CurrentAssignment, MemberState
from odradek.broker.groups.consumer.partitions import NO_PARTITIONS, Partitions, TopicIdPartition
from odradek.protocol.errors import FencedMemberEpoch

#: Whether something is not free yet, of a member that has nothing to give up -> its state
_STATE_BY_HAS_UNRELEASED: Mapping[bool, MemberState] = {
    False: MemberState.STABLE,
    True: MemberState.UNRELEASED_PARTITIONS,
}


@dataclass(frozen=True, slots=True)
class TargetAssignment:
    """What a member shall have, as of an epoch of the group."""

    epoch: int
    partitions: Partitions


def reconcile(
    current: CurrentAssignment,
    target: TargetAssignment,
    *,
    is_free: Callable[[TopicIdPartition], bool],
    owned_partitions: Partitions | None,
) -> CurrentAssignment:
    """The next step.  ``owned`` is what the member says it has; None if it says nothing of it."""
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
            raise FencedMemberEpoch("The state of this member is not known: it must join anew.")
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
    """``unless_reached`` is the epoch of a member that has something to give up."""
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
