"""SyncGroup: the leader hands in the assignment, and every member gets its part.

While groups are being loaded a rebalance that was under way is lost: members are told to join
again, as clients that are older than the error for loading do not expect it here.
"""

from __future__ import annotations

from odradek.broker.call import Call, Parked, Promised
from odradek.broker.groups.classic.outcomes import Synced
from odradek.broker.groups.classic.requests import sync_group
from odradek.broker.groups.classic.sync import SyncRequest
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.handlers.replicated import when_replicated
from odradek.protocol.api.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.protocol.errors import (
    CoordinatorLoadInProgress,
    InconsistentGroupProtocol,
    KafkaError,
    RebalanceInProgress,
    code_of,
)

_FIRST_VERSION_WITH_PROTOCOLS = 5


def handle(
    groups: GroupCoordinator, call: Call[SyncGroupRequest]
) -> SyncGroupResponse | Parked[SyncGroupResponse]:
    request = call.request
    names = (request.protocol_type, request.protocol_name)
    if call.version >= _FIRST_VERSION_WITH_PROTOCOLS and None in names:
        raise InconsistentGroupProtocol()
    shard = groups.shard_of_members(request.group_id)
    syncing = sync_group(shard, request.group_id, _wanted(call))
    if isinstance(syncing, Synced):
        response = _response(syncing)
        return when_replicated(shard.log, response) if syncing.is_of_the_log else response
    if syncing.done():
        return _response(syncing.result())
    return Promised(syncing, _response)


def _wanted(call: Call[SyncGroupRequest]) -> SyncRequest:
    request = call.request
    return SyncRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments={each.member_id: bytes(each.assignment) for each in request.assignments},
    )


def _response(synced: Synced) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=code_of(synced.failure),
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )


def refused(call: Call[SyncGroupRequest], failure: KafkaError) -> SyncGroupResponse:
    is_loading = isinstance(failure, CoordinatorLoadInProgress)
    return _response(Synced(failure=RebalanceInProgress() if is_loading else failure))
