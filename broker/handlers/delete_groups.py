"""DeleteGroups: groups without members are deleted, with their offsets."""

from __future__ import annotations

from odradek.broker.call import Call
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.offset_expiry import delete_group
from odradek.protocol.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.errors import KafkaError, code_of

Line = DeleteGroupsResponse.Group


def handle(groups: GroupCoordinator, call: Call[DeleteGroupsRequest]) -> DeleteGroupsResponse:
    """Each name once, however often it is given."""
    return DeleteGroupsResponse(
        throttle_time_ms=0,
        results=[
            Line(group_id=group_id, error_code=_deleted(groups, group_id))
            for group_id in dict.fromkeys(call.request.groups_names)
        ],
    )


def _deleted(groups: GroupCoordinator, group_id: str) -> int:
    try:
        delete_group(groups.shard(group_id), group_id)
    except KafkaError as failure:
        return code_of(failure)
    return 0


def refused(call: Call[DeleteGroupsRequest], failure: KafkaError) -> DeleteGroupsResponse:
    """All of it, for one reason."""
    code = code_of(failure)
    return DeleteGroupsResponse(
        throttle_time_ms=0,
        results=[Line(group_id=each, error_code=code) for each in call.request.groups_names],
    )
