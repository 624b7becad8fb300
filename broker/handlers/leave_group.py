"""LeaveGroup: members leave their group, which then rebalances."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.broker.groups.classic.requests import leave_group
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.handlers.replicated_response import respond_when_replicated
from odradek.broker.request import DelayedOperation, Request
from odradek.protocol.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.errors import code_of

_FIRST_BATCHED_VERSION = 3

MemberIdentity = LeaveGroupRequest.Member


def handle(
    groups: GroupCoordinator, request: Request[LeaveGroupRequest]
) -> LeaveGroupResponse | DelayedOperation[LeaveGroupResponse]:
    group_id = request.body.group_id
    shard = groups.shard_for_nonempty_id(group_id)
    members = [
        LeaveGroupResponse.Member(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            error_code=code_of(
                leave_group(shard, group_id, each.member_id, each.group_instance_id, each.reason)
            ),
        )
        for each in _leaving_members(request)
    ]
    if request.version >= _FIRST_BATCHED_VERSION:
        response = LeaveGroupResponse(error_code=0, members=members)
    else:
        response = LeaveGroupResponse(error_code=members[0].error_code)
    return respond_when_replicated(shard.log, response)


def _leaving_members(request: Request[LeaveGroupRequest]) -> Sequence[MemberIdentity]:
    if request.version >= _FIRST_BATCHED_VERSION:
        return request.body.members
    return [MemberIdentity(member_id=request.body.member_id)]
