"""LeaveGroup: members leave their group, and the others share what they had."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.broker.call import Call, Parked
from odradek.broker.groups.classic.requests import leave_group
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.handlers.replicated import when_replicated
from odradek.protocol.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.errors import code_of

_FIRST_VERSION_WITH_MANY = 3

Leaving = LeaveGroupRequest.Member


def handle(
    groups: GroupCoordinator, call: Call[LeaveGroupRequest]
) -> LeaveGroupResponse | Parked[LeaveGroupResponse]:
    group_id = call.request.group_id
    shard = groups.shard_of_members(group_id)
    lines = [
        LeaveGroupResponse.Member(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            error_code=code_of(
                leave_group(shard, group_id, each.member_id, each.group_instance_id, each.reason)
            ),
        )
        for each in _leaving(call)
    ]
    if call.version >= _FIRST_VERSION_WITH_MANY:
        response = LeaveGroupResponse(error_code=0, members=lines)
    else:
        response = LeaveGroupResponse(error_code=lines[0].error_code)
    return when_replicated(shard.log, response)


def _leaving(call: Call[LeaveGroupRequest]) -> Sequence[Leaving]:
    if call.version >= _FIRST_VERSION_WITH_MANY:
        return call.request.members
    return [Leaving(member_id=call.request.member_id)]
