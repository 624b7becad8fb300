"""JoinGroup: a member joins a classic group and waits for the rebalance that this triggers."""

from __future__ import annotations

from functools import partial

from odradek.broker.groups.classic.messages import (
    ClientIdentity,
    JoinGroupResult,
    JoinRequest,
    MemberProtocol,
    Timeouts,
)
from odradek.broker.groups.classic.requests import join_group
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.handlers.replicated_response import respond_when_replicated
from odradek.broker.request import DelayedFuture, DelayedOperation, Request
from odradek.protocol.api.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.errors import KafkaError, code_of

_FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
_FIRST_VERSION_WITH_REQUIRED_MEMBER_ID = 4
_FIRST_VERSION_WITH_NULLABLE_PROTOCOL = 7
_FIRST_VERSION_WITH_SKIP_ASSIGNMENT = 9


def handle(
    groups: GroupCoordinator, request: Request[JoinGroupRequest]
) -> JoinGroupResponse | DelayedOperation[JoinGroupResponse]:
    group_id = request.body.group_id
    shard = groups.shard_for_nonempty_id(group_id)
    joining = join_group(shard, group_id, _to_join_request(request))
    if isinstance(joining, JoinGroupResult):
        response = _build_response(request, joining)
        return (
            respond_when_replicated(shard.log, response)
            if joining.waits_for_replication
            else response
        )
    if joining.done():
        return _build_response(request, joining.result())
    return DelayedFuture(joining, partial(_build_response, request))


def _to_join_request(request: Request[JoinGroupRequest]) -> JoinRequest:
    body = request.body
    session_timeout_ms = body.session_timeout_ms
    has_rebalance_timeout = request.version >= _FIRST_VERSION_WITH_REBALANCE_TIMEOUT
    rebalance_timeout_ms = (
        body.rebalance_timeout_ms if has_rebalance_timeout else session_timeout_ms
    )
    return JoinRequest(
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        # Java writes an address with a leading slash.
        client=ClientIdentity(request.client_id or "", f"/{request.context.client_host}"),
        timeouts=Timeouts(session_timeout_ms, rebalance_timeout_ms),
        protocol_type=body.protocol_type,
        protocols=[
            MemberProtocol(protocol.name, bytes(protocol.metadata)) for protocol in body.protocols
        ],
        requires_known_member_id=request.version >= _FIRST_VERSION_WITH_REQUIRED_MEMBER_ID,
        supports_skipping_assignment=request.version >= _FIRST_VERSION_WITH_SKIP_ASSIGNMENT,
        reason=body.reason,
    )


def _build_response(
    request: Request[JoinGroupRequest], result: JoinGroupResult
) -> JoinGroupResponse:
    protocol = result.protocol
    if protocol is None and request.version < _FIRST_VERSION_WITH_NULLABLE_PROTOCOL:
        protocol = ""
    return JoinGroupResponse(
        error_code=code_of(result.error),
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=protocol,
        leader=result.leader,
        # True only for clients whose version supports it.
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponse.Member(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in result.members
        ],
    )


def error_response(request: Request[JoinGroupRequest], error: KafkaError) -> JoinGroupResponse:
    return _build_response(request, JoinGroupResult(member_id=request.body.member_id, error=error))
