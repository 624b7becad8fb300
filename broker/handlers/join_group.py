"""JoinGroup: a member enters a classic group, and waits for the rebalance that this starts."""

from __future__ import annotations

from functools import partial

from odradek.broker.call import Call, Parked, Promised
from odradek.broker.groups.classic.outcomes import Client, Joined, JoinRequest, Offer, Timeouts
from odradek.broker.groups.classic.requests import join_group
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.handlers.replicated import when_replicated
from odradek.protocol.api.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.errors import KafkaError, code_of

_FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
_FIRST_VERSION_WITH_REQUIRED_ID = 4
_FIRST_VERSION_WITHOUT_A_PROTOCOL = 7
_FIRST_VERSION_SKIPPING_ASSIGNMENT = 9


def handle(
    groups: GroupCoordinator, call: Call[JoinGroupRequest]
) -> JoinGroupResponse | Parked[JoinGroupResponse]:
    group_id = call.request.group_id
    shard = groups.shard_of_members(group_id)
    joining = join_group(shard, group_id, _wanted(call))
    if isinstance(joining, Joined):
        response = _response(call, joining)
        return when_replicated(shard.log, response) if joining.is_of_the_log else response
    if joining.done():
        return _response(call, joining.result())
    return Promised(joining, partial(_response, call))


def _wanted(call: Call[JoinGroupRequest]) -> JoinRequest:
    request = call.request
    session_ms = request.session_timeout_ms
    has_own = call.version >= _FIRST_VERSION_WITH_REBALANCE_TIMEOUT
    rebalance_ms = request.rebalance_timeout_ms if has_own else session_ms
    return JoinRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        # As Java shows an address.
        client=Client(call.client_id or "", f"/{call.peer.client_host}"),
        timeouts=Timeouts(session_ms, rebalance_ms),
        protocol_type=request.protocol_type,
        offers=[Offer(each.name, bytes(each.metadata)) for each in request.protocols],
        requires_id=call.version >= _FIRST_VERSION_WITH_REQUIRED_ID,
        can_skip_assignment=call.version >= _FIRST_VERSION_SKIPPING_ASSIGNMENT,
        reason=request.reason,
    )


def _response(call: Call[JoinGroupRequest], joined: Joined) -> JoinGroupResponse:
    protocol = joined.protocol
    if protocol is None and call.version < _FIRST_VERSION_WITHOUT_A_PROTOCOL:
        protocol = ""
    return JoinGroupResponse(
        error_code=code_of(joined.failure),
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=protocol,
        leader=joined.leader,
        # Only a client of an age to know it is ever told to.
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponse.Member(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                metadata=each.metadata,
            )
            for each in joined.members
        ],
    )


def refused(call: Call[JoinGroupRequest], failure: KafkaError) -> JoinGroupResponse:
    return _response(call, Joined(member_id=call.request.member_id, failure=failure))
