"""Who may join a classic group, and what comes of it.

    a new member        is given an id, and asked to come again with it (KIP-394), unless its client
                        is older than that; then it is in, and everybody has to join again
    one that knows its  joins again: that starts a rebalance if it leads or offers something else,
    id                  else it is told of the generation that there is
    a static member     that has lost its id takes its own place again (KIP-345): if the group is
                        stable, and nothing changes for the others, without a rebalance

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

log = logging.getLogger(__name__)

#: At once, or when the rebalance has ended.
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
            raise UnknownMemberId()  # ids that are pending are of members without an instance
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
        # By those who have joined: if the group is too large, the last to come are out.
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
    """Whoever waited before has been given up by its client."""
    future: asyncio.Future[JoinGroupResult] = group.shard.context.loop.create_future()
    member.awaiting_join_future = future
    group.metadata.members_awaiting_join.add(member.id)
    return future


def _rebalance_or_complete_join(group: ClassicGroup, reason: str) -> None:
    if group.metadata.state is ClassicGroupState.PREPARING_REBALANCE:
        group.maybe_complete_join()
    else:
        group.prepare_rebalance(reason)


# Members that come again


def _join_existing_member(group: ClassicGroup, request: JoinRequest) -> JoinResultOrFuture:
    metadata = group.metadata
    member = metadata.validate_member(request.member_id, request.instance_id)
    check_api_allowed(metadata.state, ApiKey.JOIN_GROUP)
    is_unchanged = member.has_same_protocols(request.protocols)
    is_leader = metadata.leader == member.id
    # A leader joins again when it sees that what is to be assigned has changed.
    may_return_current = metadata.state is ClassicGroupState.COMPLETING_REBALANCE or (
        metadata.state is ClassicGroupState.STABLE and not is_leader
    )
    if may_return_current and is_unchanged:
        # It has missed the answer, or wants to know: the generation is as it was.
        return metadata.build_join_result(member)
    metadata.update_member(member, request.protocols, request.timeouts)
    future = _await_join(group, member)
    _rebalance_or_complete_join(
        group,
        f"updating metadata of member {member.id}; "
        f"client reason: {request.reason or 'not provided'}",
    )
    return future


# Static members that come back


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
            # Nobody knows of the new id: the old one is the member's again.
            metadata.complete_join_future(
                member,
                JoinGroupResult(
                    member_id=UNKNOWN_MEMBER_ID, error=map_append_error(error, STORE_GROUP_ERRORS)
                ),
            )
            metadata.replace_static_member(new_id, old_id)
            metadata.update_member(member, old_protocols, old_timeouts)
            return future
        metadata.compute_subscribed_topics()  # as whoever loads it would
        group.shard.log.when_replicated(append_info, on_replicated)
        return future
    # Not stable: the leader may know of the old id already, so that all have to join again.
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
        return  # answered: it is another's by now, who waits for another record, or is out
    if error is not None:
        rejection = JoinGroupResult(
            member_id=UNKNOWN_MEMBER_ID, error=map_append_error(error, STORE_GROUP_ERRORS)
        )
        metadata.complete_join_future(member, rejection)
        member.reset_session_timer()
        return
    if metadata.state is not ClassicGroupState.STABLE:
        return  # a rebalance has begun meanwhile, and answers it
    result = metadata.build_join_result(member, skip_assignment=metadata.leader == member.id)
    if not request.supports_skipping_assignment:
        # A leader of this age would assign, in vain.  It does not know itself by its old id.
        result = JoinGroupResult(
            member_id=member.id,
            generation=metadata.generation,
            protocol_type=metadata.protocol_type,
            protocol=metadata.protocol,
            leader=previous_leader or "",
        )
    metadata.complete_join_future(member, result)
    member.reset_session_timer()
