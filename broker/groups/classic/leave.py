"""Leaving a classic group: by oneself, or because an operator says so.

A static member does not leave when its client stops.  It is removed by its instance's name, with
no member id (KIP-345).

Owner: the event loop.
"""

from __future__ import annotations

from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.outcomes import NO_MEMBER
from odradek.broker.groups.classic.state import GroupState, check_answer
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import UnknownMemberId


def leave(
    group: ClassicGroup, member_id: str, instance_id: str | None, *, reason: str | None
) -> None:
    """Raises what is said against it."""
    roster = group.roster
    if roster.state is GroupState.DEAD:
        check_answer(roster.state, ApiKey.HEARTBEAT)
    if member_id == NO_MEMBER:
        present = roster.instances.get(instance_id) if instance_id is not None else None
        if present is None:
            raise UnknownMemberId()
        member_id = present
    elif member_id in roster.pending:
        group.remove_pending(member_id)
        return
    member = roster.checked(member_id, instance_id)
    group.remove(member, f"{member_id} leaves; {reason or 'no reason given'}")
