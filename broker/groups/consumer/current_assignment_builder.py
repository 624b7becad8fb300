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
from odradek.broker.groups.consumer.partitions import NOTHING, Partitions, TopicIdPartition
from odradek.protocol.errors import FencedMemberEpoch

#: Whether something is not free yet, of a member that has nothing to give up -> its state
_REACHED: Mapping[bool, MemberState] = {
    False: MemberState.STABLE,
    True: MemberState.UNRELEASED_PARTITIONS,
}


@dataclass(frozen=True, slots=True)
class Target:
    """What a member shall have, as of an epoch of the group."""

    epoch: int
    partitions: Partitions


def reconcile(
    current: CurrentAssignment,
    target: Target,
    *,
    is_free: Callable[[TopicIdPartition], bool],
    owned: Partitions | None,
) -> CurrentAssignment:
    """The next step.  ``owned`` is what the member says it has; None if it says nothing of it."""
    match current.state:
        case MemberState.STABLE if current.epoch == target.epoch:
            return current
        case MemberState.UNREVOKED_PARTITIONS if _still_has(current.to_revoke, owned):
            return current
        case MemberState.UNREVOKED_PARTITIONS:
            return _next(current, target, is_free, owned, unless_reached=current.epoch + 1)
        case MemberState.UNKNOWN if owned is None or owned:
            raise FencedMemberEpoch("The state of this member is not known: it must join anew.")
        case _:
            return _next(current, target, is_free, owned, unless_reached=current.epoch)


def _next(
    current: CurrentAssignment,
    target: Target,
    is_free: Callable[[TopicIdPartition], bool],
    owned: Partitions | None,
    unless_reached: int,
) -> CurrentAssignment:
    """``unless_reached`` is the epoch of a member that has something to give up."""
    kept = current.assigned & target.partitions
    to_revoke = current.assigned - kept
    if to_revoke and _still_has(to_revoke, owned):
        return CurrentAssignment(
            epoch=unless_reached,
            previous_epoch=current.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            to_revoke=to_revoke,
        )
    missing = target.partitions - kept
    given = frozenset(filter(is_free, missing))
    return CurrentAssignment(
        epoch=target.epoch,
        previous_epoch=current.epoch,
        state=_REACHED[len(given) < len(missing)],
        assigned=kept | given,
        to_revoke=NOTHING,
    )


def _still_has(to_revoke: Partitions, owned: Partitions | None) -> bool:
    return owned is None or not to_revoke.isdisjoint(owned)
