"""Heartbeat: a member of a classic group is alive, and hears whether it has to join again.

While groups are being loaded it is believed.
"""

from __future__ import annotations

from odradek.broker.call import Call
from odradek.broker.groups.classic.requests import heartbeat
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.errors import CoordinatorLoadInProgress, KafkaError, code_of


def handle(groups: GroupCoordinator, call: Call[HeartbeatRequest]) -> HeartbeatResponse:
    request = call.request
    heartbeat(
        groups.shard_of_members(request.group_id),
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
    )
    return HeartbeatResponse(error_code=0)


def refused(call: Call[HeartbeatRequest], failure: KafkaError) -> HeartbeatResponse:
    is_loading = isinstance(failure, CoordinatorLoadInProgress)
    return HeartbeatResponse(error_code=0 if is_loading else code_of(failure))
