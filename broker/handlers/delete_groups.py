"""DeleteGroups: delete groups without members, and their offsets.

Groups are stored in several partitions of ``__consumer_offsets``.  If the replication of one
partition fails, only its groups get the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from odradek.broker.coordinator.append_errors import GROUP_UPDATE_ERRORS, map_append_error
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.offset_expiry import delete_group
from odradek.broker.groups.shard import GroupCoordinatorShard
from odradek.broker.request import DelayedOperation, Request
from odradek.protocol.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.errors import KafkaError, code_of

GroupResult = DeleteGroupsResponse.Group


def handle(
    groups: GroupCoordinator, request: Request[DeleteGroupsRequest]
) -> DeleteGroupsResponse | DelayedOperation[DeleteGroupsResponse]:
    """Delete each group once, even if the request names it several times."""
    response = DeleteGroupsResponse(throttle_time_ms=0, results=[])
    unreplicated: dict[GroupCoordinatorShard, list[GroupResult]] = {}
    for group_id in dict.fromkeys(request.body.groups_names):
        result = GroupResult(group_id=group_id, error_code=0)
        response.results.append(result)
        try:
            shard = groups.shard(group_id)
            delete_group(shard, group_id)
        except KafkaError as error:
            result.error_code = code_of(error)
        else:
            if not shard.log.is_fully_replicated:
                unreplicated.setdefault(shard, []).append(result)
    if not unreplicated:
        return response
    return DelayedOperation(
        partial(_respond_when_replicated, unreplicated, response), completes_on_shutdown=True
    )


async def _respond_when_replicated(
    unreplicated: Mapping[GroupCoordinatorShard, Iterable[GroupResult]],
    response: DeleteGroupsResponse,
) -> DeleteGroupsResponse:
    for shard, results in unreplicated.items():
        try:
            await shard.log.wait_until_fully_replicated()
        except KafkaError as error:
            for result in results:
                result.error_code = code_of(map_append_error(error, GROUP_UPDATE_ERRORS))
    return response


def error_response(
    request: Request[DeleteGroupsRequest], error: KafkaError
) -> DeleteGroupsResponse:
    code = code_of(error)
    return DeleteGroupsResponse(
        throttle_time_ms=0,
        results=[
            GroupResult(group_id=group_id, error_code=code)
            for group_id in request.body.groups_names
        ],
    )
