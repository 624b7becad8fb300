"""Heartbeat: keep a member of a classic group alive, and tell it whether it has to rejoin.

While the group is being loaded, the response has no error, as in Kafka.
"""

from __future__ import annotations

from odradek.broker.groups.classic.requests import heartbeat
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.request import Request
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.errors import CoordinatorLoadInProgress, KafkaError, code_of


def handle(groups: GroupCoordinator, request: Request[HeartbeatRequest]) -> HeartbeatResponse:
    body = request.body
    heartbeat(
        groups.shard_for_nonempty_id(body.group_id),
        body.group_id,
        body.member_id,
        body.group_instance_id,
        body.generation_id,
    )
    return HeartbeatResponse(error_code=0)


def error_response(request: Request[HeartbeatRequest], error: KafkaError) -> HeartbeatResponse:
    is_loading = isinstance(error, CoordinatorLoadInProgress)
    return HeartbeatResponse(error_code=0 if is_loading else code_of(error))
