"""SyncGroup: the leader sends the assignment, and every member receives its part.

A rebalance that was in progress is lost when the group is loaded.  While groups are being loaded,
members get REBALANCE_IN_PROGRESS and rejoin: clients older than COORDINATOR_LOAD_IN_PROGRESS do not
expect that error here.
"""

from __future__ import annotations

from odradek.broker.groups.classic.messages import SyncGroupResult
from odradek.broker.groups.classic.requests import sync_group
from odradek.broker.groups.classic.sync import SyncRequest
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.handlers.replicated_response import respond_when_replicated
from odradek.broker.request import DelayedFuture, DelayedOperation, Request
from odradek.protocol.api.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.protocol.errors import (
    CoordinatorLoadInProgress,
    InconsistentGroupProtocol,
    KafkaError,
    RebalanceInProgress,
    code_of,
)

_FIRST_VERSION_WITH_PROTOCOL_NAME = 5


def handle(
    groups: GroupCoordinator, request: Request[SyncGroupRequest]
) -> SyncGroupResponse | DelayedOperation[SyncGroupResponse]:
    body = request.body
    names = (body.protocol_type, body.protocol_name)
    if request.version >= _FIRST_VERSION_WITH_PROTOCOL_NAME and None in names:
        raise InconsistentGroupProtocol()
    shard = groups.shard_for_nonempty_id(body.group_id)
    syncing = sync_group(shard, body.group_id, _to_sync_request(request))
    if isinstance(syncing, SyncGroupResult):
        response = _build_response(syncing)
        return (
            respond_when_replicated(shard.log, response)
            if syncing.waits_for_replication
            else response
        )
    if syncing.done():
        return _build_response(syncing.result())
    return DelayedFuture(syncing, _build_response)


def _to_sync_request(request: Request[SyncGroupRequest]) -> SyncRequest:
    body = request.body
    return SyncRequest(
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        generation=body.generation_id,
        protocol_type=body.protocol_type,
        protocol=body.protocol_name,
        assignments={each.member_id: bytes(each.assignment) for each in body.assignments},
    )


def _build_response(result: SyncGroupResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=code_of(result.error),
        protocol_type=result.protocol_type,
        protocol_name=result.protocol,
        assignment=result.assignment,
    )


def error_response(request: Request[SyncGroupRequest], error: KafkaError) -> SyncGroupResponse:
    is_loading = isinstance(error, CoordinatorLoadInProgress)
    return _build_response(SyncGroupResult(error=RebalanceInProgress() if is_loading else error))
