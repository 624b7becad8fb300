"""The entry points of the classic group APIs: find the group of a request and pass it on.

Owner: the event loop.
"""

from __future__ import annotations

from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.join import JoinResultOrFuture, join
from odradek.broker.groups.classic.leave import leave
from odradek.broker.groups.classic.messages import UNKNOWN_MEMBER_ID, JoinGroupResult, JoinRequest
from odradek.broker.groups.classic.sync import SyncRequest, SyncResultOrFuture, sync
from odradek.broker.groups.consumer import classic_members
from odradek.broker.groups.consumer.consumer_group_runtime import ConsumerGroupRuntime
from odradek.broker.groups.group import Group
from odradek.broker.groups.shard import GroupCoordinatorShard
from odradek.protocol.errors import (
    InconsistentGroupProtocol,
    InvalidSessionTimeout,
    KafkaError,
    UnknownMemberId,
)


def join_group(
    shard: GroupCoordinatorShard, group_id: str, request: JoinRequest
) -> JoinResultOrFuture:
    """Join a group; a client without a member id may create it."""
    settings = shard.context.settings
    if not (
        settings.min_session_timeout_ms
        <= request.timeouts.session_timeout_ms
        <= settings.max_session_timeout_ms
    ):
        return JoinGroupResult(member_id=request.member_id, error=InvalidSessionTimeout())
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroupRuntime):
        return _join_consumer_group(shard, group, request)
    return _join_classic_group(shard, group_id, group, request)


def _join_consumer_group(
    shard: GroupCoordinatorShard, group: ConsumerGroupRuntime, request: JoinRequest
) -> JoinResultOrFuture:
    """Join a consumer group; if it has no members, a classic group replaces it."""
    if not group.is_empty:
        return classic_members.join(group, request)
    if request.member_id == UNKNOWN_MEMBER_ID:
        group.delete()
    return _join_classic_group(shard, group.id, None, request)


def _join_classic_group(
    shard: GroupCoordinatorShard, group_id: str, group: Group | None, request: JoinRequest
) -> JoinResultOrFuture:
    if group is None:
        if request.member_id != UNKNOWN_MEMBER_ID:
            return JoinGroupResult(member_id=request.member_id, error=UnknownMemberId())
        group = ClassicGroup(shard, group_id)
    if not isinstance(group, ClassicGroup):
        return JoinGroupResult(member_id=request.member_id, error=InconsistentGroupProtocol())
    result = join(group, request)
    if not group.is_unused:
        shard.groups[group_id] = group
    return result


def sync_group(
    shard: GroupCoordinatorShard, group_id: str, request: SyncRequest
) -> SyncResultOrFuture:
    """Raise KafkaError if the group rejects the request."""
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroupRuntime):
        return classic_members.sync(group, request)
    return sync(_find_classic_group(shard, group_id), request)


def heartbeat(
    shard: GroupCoordinatorShard,
    group_id: str,
    member_id: str,
    instance_id: str | None,
    generation: int,
) -> None:
    """Raise KafkaError if the group rejects the heartbeat."""
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroupRuntime):
        classic_members.heartbeat(group, member_id, instance_id, generation)
        return
    _find_classic_group(shard, group_id).heartbeat(member_id, instance_id, generation)


def leave_group(
    shard: GroupCoordinatorShard,
    group_id: str,
    member_id: str,
    instance_id: str | None,
    reason: str | None,
) -> KafkaError | None:
    """Return the error for the member, or None."""
    group = shard.groups.get(group_id)
    try:
        if isinstance(group, ConsumerGroupRuntime):
            classic_members.leave(group, member_id, instance_id)
        else:
            leave(_find_classic_group(shard, group_id), member_id, instance_id, reason=reason)
    except KafkaError as error:
        return error
    return None


def _find_classic_group(shard: GroupCoordinatorShard, group_id: str) -> ClassicGroup:
    group = shard.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        raise UnknownMemberId()
    return group
