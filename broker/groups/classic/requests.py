"""What members of classic groups ask for, led to the group that it is about.

Owner: the event loop.
"""

from __future__ import annotations

from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.join import Joining, join
from odradek.broker.groups.classic.leave import leave
from odradek.broker.groups.classic.outcomes import NO_MEMBER, Joined, JoinRequest
from odradek.broker.groups.classic.sync import Syncing, SyncRequest, sync
from odradek.broker.groups.consumer import classic_members
from odradek.broker.groups.consumer.live_group import LiveGroup
from odradek.broker.groups.group import Group
from odradek.broker.groups.shard import GroupShard
from odradek.protocol.errors import (
    InconsistentGroupProtocol,
    InvalidSessionTimeout,
    KafkaError,
    UnknownMemberId,
)


def join_group(shard: GroupShard, group_id: str, request: JoinRequest) -> Joining:
    """Whoever has no id yet may begin a group."""
    settings = shard.world.settings
    if not (
        settings.min_session_timeout_ms
        <= request.timeouts.session_ms
        <= settings.max_session_timeout_ms
    ):
        return Joined(member_id=request.member_id, failure=InvalidSessionTimeout())
    group = shard.groups.get(group_id)
    if isinstance(group, LiveGroup):
        return _join_live_group(shard, group, request)
    return _join_classic_group(shard, group_id, group, request)


def _join_live_group(shard: GroupShard, group: LiveGroup, request: JoinRequest) -> Joining:
    """One of the consumer protocol; if it has no members, a classic group takes its place."""
    if not group.is_empty:
        return classic_members.join(group, request)
    if request.member_id == NO_MEMBER:
        group.delete()
    return _join_classic_group(shard, group.id, None, request)


def _join_classic_group(
    shard: GroupShard, group_id: str, group: Group | None, request: JoinRequest
) -> Joining:
    if group is None:
        if request.member_id != NO_MEMBER:
            return Joined(member_id=request.member_id, failure=UnknownMemberId())
        group = ClassicGroup(shard, group_id)
    if not isinstance(group, ClassicGroup):
        return Joined(member_id=request.member_id, failure=InconsistentGroupProtocol())
    joining = join(group, request)
    if not group.is_unused:
        shard.groups[group_id] = group
    return joining


def sync_group(shard: GroupShard, group_id: str, request: SyncRequest) -> Syncing:
    """Raises what the member is told."""
    group = shard.groups.get(group_id)
    if isinstance(group, LiveGroup):
        return classic_members.sync(group, request)
    return sync(_group(shard, group_id), request)


def heartbeat(
    shard: GroupShard, group_id: str, member_id: str, instance_id: str | None, generation: int
) -> None:
    """Raises what the member is told."""
    group = shard.groups.get(group_id)
    if isinstance(group, LiveGroup):
        classic_members.heartbeat(group, member_id, instance_id, generation)
        return
    _group(shard, group_id).heartbeat(member_id, instance_id, generation)


def leave_group(
    shard: GroupShard, group_id: str, member_id: str, instance_id: str | None, reason: str | None
) -> KafkaError | None:
    """What the member is told, if anything stands against it."""
    group = shard.groups.get(group_id)
    try:
        if isinstance(group, LiveGroup):
            classic_members.leave(group, member_id, instance_id)
        else:
            leave(_group(shard, group_id), member_id, instance_id, reason=reason)
    except KafkaError as failure:
        return failure
    return None


def _group(shard: GroupShard, group_id: str) -> ClassicGroup:
    group = shard.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        raise UnknownMemberId()
    return group
