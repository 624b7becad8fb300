"""LeaveGroup for classic groups: a member leaves, or an operator removes it.

A static member does not leave when its client stops.  An operator removes it by its group instance
id, without a member id (KIP-345).

Owner: the event loop.
"""

from __future__ import annotations

from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.messages import UNKNOWN_MEMBER_ID
from odradek.broker.groups.classic.state import ClassicGroupState, check_api_allowed
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import UnknownMemberId


def leave(
    group: ClassicGroup, member_id: str, instance_id: str | None, *, reason: str | None
) -> None:
    """Remove the member; raise KafkaError if it is unknown or fenced."""
    metadata = group.metadata
    if metadata.state is ClassicGroupState.DEAD:
        check_api_allowed(metadata.state, ApiKey.HEARTBEAT)
    if member_id == UNKNOWN_MEMBER_ID:
        static_member_id = (
            metadata.static_members.get(instance_id) if instance_id is not None else None
        )
        if static_member_id is None:
            raise UnknownMemberId()
        member_id = static_member_id
    elif member_id in metadata.pending_join_members:
        group.remove_pending_member(member_id)
        return
    member = metadata.validate_member(member_id, instance_id)
    group.remove_member_and_rebalance(
        member, f"member {member_id} left by LeaveGroup; client reason: {reason or 'not provided'}"
    )
