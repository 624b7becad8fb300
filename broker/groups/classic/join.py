"""JoinGroup for classic groups.

    new member          gets a member id and joins again with it (KIP-394), unless its client is too
                        old for that; then it is added, and the group rebalances
    known member        rejoins: the group rebalances if the member is the leader or changes its
                        protocols; otherwise the current generation is returned
    static member       that rejoins without its member id replaces itself (KIP-345): without a
                        rebalance if the group is stable and keeps its protocol

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from odradek.broker.coordinator.append_errors import STORE_GROUP_ERRORS, map_append_error
from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.member import ClassicGroupMember
from odradek.broker.groups.classic.messages import UNKNOWN_MEMBER_ID, JoinGroupResult, JoinRequest
from odradek.broker.groups.classic.state import ClassicGroupState, check_api_allowed
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import (
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    KafkaError,
    MemberIdRequired,
    UnknownMemberId,
)

log = logging.getLogger("kafka.coordinator.group")

#: The result, or a future that completes at the end of the rebalance.
JoinResultOrFuture = JoinGroupResult | asyncio.Future[JoinGroupResult]


def join(group: ClassicGroup, request: JoinRequest) -> JoinResultOrFuture:
    try:
        return _try_join(group, request)
    except KafkaError as error:
        keeps_member_id = not isinstance(error, GroupMaxSizeReached)
        return JoinGroupResult(
            member_id=request.member_id if keeps_member_id else UNKNOWN_MEMBER_ID, error=error
        )


def _try_join(group: ClassicGroup, request: JoinRequest) -> JoinResultOrFuture:
    if not _has_room(group, request.member_id):
        _remove_rejected_member(group, request.member_id)
        raise GroupMaxSizeReached()
    if group.metadata.state is ClassicGroupState.DEAD:
        check_api_allowed(ClassicGroupState.DEAD, ApiKey.JOIN_GROUP)
    if not group.metadata.supports_protocols(request.protocol_type, request.protocols):
        raise InconsistentGroupProtocol()
    if request.member_id == UNKNOWN_MEMBER_ID:
        return _join_new_member(group, request)
    if request.member_id in group.metadata.pending_join_members:
        if request.instance_id is not None:
            raise UnknownMemberId()  # pending ids belong to dynamic members only
        return _add_member_and_rebalance(group, request.member_id, request)
    return _join_existing_member(group, request)


def _remove_rejected_member(group: ClassicGroup, member_id: str) -> None:
    member = group.metadata.members.get(member_id)
    if member is not None:
        group.remove_member(member)
        group.maybe_complete_join()
    elif member_id in group.metadata.pending_join_members:
        group.remove_pending_member(member_id)


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    metadata, max_size = group.metadata, group.shard.context.settings.max_size
    if metadata.state is ClassicGroupState.PREPARING_REBALANCE:
        # Count the members that have joined: in a group above the limit, the last to join are
        # rejected.
        return (
            member_id in metadata.members_awaiting_join
            or len(metadata.members_awaiting_join) < max_size
        )
    if metadata.state in (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE):
        return member_id in metadata.members or len(metadata.members) < max_size
    return True


def _join_new_member(group: ClassicGroup, request: JoinRequest) -> JoinResultOrFuture:
    instance_id = request.instance_id
    member_id = request.generate_member_id(group.shard.context.new_uuid())
    if instance_id is not None:
        current_id = group.metadata.static_members.get(instance_id)
        if current_id is not None:
            return _replace_static_member(group, current_id, member_id, request)
    elif request.requires_known_member_id:
        group.add_pending_member(member_id, session_timeout_ms=request.timeouts.session_timeout_ms)
        return JoinGroupResult(member_id=member_id, error=MemberIdRequired())
    return _add_member_and_rebalance(group, member_id, request)


def _add_member_and_rebalance(
    group: ClassicGroup, member_id: str, request: JoinRequest
) -> JoinResultOrFuture:
    member = ClassicGroupMember(
        member_id,
        instance_id=request.instance_id,
        client=request.client,
        timeouts=request.timeouts,
        protocols=request.protocols,
    )
    group.add_member(member, protocol_type=request.protocol_type)
    future = _await_join(group, member)
    _rebalance_or_complete_join(
        group, f"adding new member {member_id}; client reason: {request.reason or 'not provided'}"
    )
    return future


def _await_join(group: ClassicGroup, member: ClassicGroupMember) -> asyncio.Future[JoinGroupResult]:
    """Let the member wait for the join; its client has given up an earlier request."""
    future: asyncio.Future[JoinGroupResult] = group.shard.context.loop.create_future()
    member.awaiting_join_future = future
    group.metadata.members_awaiting_join.add(member.id)
    return future


def _rebalance_or_complete_join(group: ClassicGroup, reason: str) -> None:
    if group.metadata.state is ClassicGroupState.PREPARING_REBALANCE:
        group.maybe_complete_join()
    else:
        group.prepare_rebalance(reason)


# Known members that rejoin


def _join_existing_member(group: ClassicGroup, request: JoinRequest) -> JoinResultOrFuture:
    metadata = group.metadata
    member = metadata.validate_member(request.member_id, request.instance_id)
    check_api_allowed(metadata.state, ApiKey.JOIN_GROUP)
    is_unchanged = member.has_same_protocols(request.protocols)
    is_leader = metadata.leader == member.id
    # A leader that rejoins a stable group has seen a change of what it assigns: rebalance.
    may_return_current = metadata.state is ClassicGroupState.COMPLETING_REBALANCE or (
        metadata.state is ClassicGroupState.STABLE and not is_leader
    )
    if may_return_current and is_unchanged:
        # The member has missed the response or repeats its request.
        return metadata.build_join_result(member)
    metadata.update_member(member, request.protocols, request.timeouts)
    future = _await_join(group, member)
    _rebalance_or_complete_join(
        group,
        f"updating metadata of member {member.id}; "
        f"client reason: {request.reason or 'not provided'}",
    )
    return future


# Static members that rejoin with a new member id


def _replace_static_member(
    group: ClassicGroup, old_id: str, new_id: str, request: JoinRequest
) -> JoinResultOrFuture:
    metadata = group.metadata
    previous_leader = metadata.leader
    old_member = metadata.members[old_id]
    old_protocols, old_timeouts = old_member.supported_protocols, old_member.timeouts
    member = metadata.replace_static_member(old_id, new_id)
    metadata.update_member(member, request.protocols, request.timeouts)
    member.reset_session_timer()
    future = _await_join(group, member)
    if (
        metadata.state is ClassicGroupState.STABLE
        and metadata.select_protocol() == metadata.protocol
    ):
        on_replicated = partial(
            _complete_static_replacement, group, member, future, request, previous_leader
        )
        try:
            append_info = group.store()
        except KafkaError as error:
            # The new member id was not stored: restore the old one.
            metadata.complete_join_future(
                member,
                JoinGroupResult(
                    member_id=UNKNOWN_MEMBER_ID, error=map_append_error(error, STORE_GROUP_ERRORS)
                ),
            )
            metadata.replace_static_member(new_id, old_id)
            metadata.update_member(member, old_protocols, old_timeouts)
            return future
        metadata.compute_subscribed_topics()  # as a load of the record would
        group.shard.log.when_replicated(append_info, on_replicated)
        return future
    # Not stable: the leader may have received the old member id already, so all must rejoin.
    reason = (
        f"updating metadata of static member {request.instance_id}; "
        f"client reason: {request.reason or 'not provided'}"
    )
    _rebalance_or_complete_join(group, reason)
    return future


def _complete_static_replacement(
    group: ClassicGroup,
    member: ClassicGroupMember,
    join_future: asyncio.Future[JoinGroupResult],
    request: JoinRequest,
    previous_leader: str | None,
    error: KafkaError | None,
) -> None:
    metadata = group.metadata
    if member.awaiting_join_future is not join_future:
        return  # completed: the member was replaced again or removed
    if error is not None:
        rejection = JoinGroupResult(
            member_id=UNKNOWN_MEMBER_ID, error=map_append_error(error, STORE_GROUP_ERRORS)
        )
        metadata.complete_join_future(member, rejection)
        member.reset_session_timer()
        return
    if metadata.state is not ClassicGroupState.STABLE:
        return  # a rebalance has started and completes the future
    result = metadata.build_join_result(member, skip_assignment=metadata.leader == member.id)
    if not request.supports_skipping_assignment:
        # An old client does not know SkipAssignment and would assign in vain as leader.  With its
        # old member id as the leader, it acts as a follower.
        result = JoinGroupResult(
            member_id=member.id,
            generation=metadata.generation,
            protocol_type=metadata.protocol_type,
            protocol=metadata.protocol,
            leader=previous_leader or "",
        )
    metadata.complete_join_future(member, result)
    member.reset_session_timer()
