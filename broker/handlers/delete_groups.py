"""DeleteGroups: groups without members are deleted, with their offsets.

Groups are in several logs.  Where one of these is not replicated, that is said of its groups alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from odradek.broker.call import Call, Parked
from odradek.broker.coordinator.log_failures import OF_A_CHANGE, told
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.offset_expiry import delete_group
from odradek.broker.groups.shard import GroupShard
from odradek.protocol.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.errors import KafkaError, code_of

Line = DeleteGroupsResponse.Group


def handle(
    groups: GroupCoordinator, call: Call[DeleteGroupsRequest]
) -> DeleteGroupsResponse | Parked[DeleteGroupsResponse]:
    """Each name once, however often it is given."""
    response = DeleteGroupsResponse(throttle_time_ms=0, results=[])
    unsettled: dict[GroupShard, list[Line]] = {}
    for group_id in dict.fromkeys(call.request.groups_names):
        line = Line(group_id=group_id, error_code=0)
        response.results.append(line)
        try:
            shard = groups.shard(group_id)
            delete_group(shard, group_id)
        except KafkaError as failure:
            line.error_code = code_of(failure)
        else:
            if not shard.log.is_settled:
                unsettled.setdefault(shard, []).append(line)
    if not unsettled:
        return response
    return Parked(partial(_replicated, unsettled, response), ends_alone=True)


async def _replicated(
    unsettled: Mapping[GroupShard, Iterable[Line]], response: DeleteGroupsResponse
) -> DeleteGroupsResponse:
    for shard, lines in unsettled.items():
        try:
            await shard.log.wait_until_settled()
        except KafkaError as failure:
            for line in lines:
                line.error_code = code_of(told(failure, OF_A_CHANGE))
    return response


def refused(call: Call[DeleteGroupsRequest], failure: KafkaError) -> DeleteGroupsResponse:
    """All of it, for one reason."""
    code = code_of(failure)
    return DeleteGroupsResponse(
        throttle_time_ms=0,
        results=[Line(group_id=each, error_code=code) for each in call.request.groups_names],
    )
