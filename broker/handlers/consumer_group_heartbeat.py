"""ConsumerGroupHeartbeat: a member of the consumer protocol joins, is assigned, stays, leaves.

Where many names have to be matched with an expression, that is done in turns before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from odradek.broker.groups.classic.messages import ClientIdentity
from odradek.broker.groups.consumer.heartbeat import HeartbeatResult
from odradek.broker.groups.consumer.partitions import partitions_to_topics
from odradek.broker.groups.consumer.requests import (
    check_heartbeat_request,
    heartbeat,
    unresolved_regexes,
)
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.handlers.error_messages import error_message
from odradek.broker.handlers.replicated_response import respond_when_replicated
from odradek.broker.request import DelayedOperation, Request
from odradek.protocol.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from odradek.protocol.errors import KafkaError, code_of

Response = ConsumerGroupHeartbeatResponse


def handle(
    groups: GroupCoordinator, request: Request[ConsumerGroupHeartbeatRequest]
) -> Response | Awaitable[Response | DelayedOperation[Response]]:
    body, settings = request.body, groups.context.consumer_settings
    check_heartbeat_request(settings, body, version=request.version)
    groups.evict_unused_regexes()
    regexes = unresolved_regexes(groups.shard_for_nonempty_id(body.group_id), body)
    if regexes:
        return _handle_sliced(groups, request, regexes)
    return _handle_inline(groups, request)


async def _handle_sliced(
    groups: GroupCoordinator,
    request: Request[ConsumerGroupHeartbeatRequest],
    regexes: Iterable[str],
) -> Response | DelayedOperation[Response]:
    """Names that come meanwhile are few: they are matched at once, or this might never end."""
    await groups.context.topics_provider.match_sliced(regexes)
    return _handle_inline(groups, request)


def _handle_inline(
    groups: GroupCoordinator, request: Request[ConsumerGroupHeartbeatRequest]
) -> Response | DelayedOperation[Response]:
    body, shard = request.body, groups.shard_for_nonempty_id(request.body.group_id)
    # As Java shows an address.
    client = ClientIdentity(request.client_id or "", f"/{request.context.client_host}")
    result = heartbeat(shard, body, client)
    group_settings = groups.context.group_settings_for(body.group_id)
    response = _build_response(result, heartbeat_interval_ms=group_settings.heartbeat_interval_ms)
    return respond_when_replicated(shard.log, response)


def _build_response(result: HeartbeatResult, *, heartbeat_interval_ms: int) -> Response:
    """Whoever leaves need not know when to come again."""
    return Response(
        throttle_time_ms=0,
        error_code=0,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=heartbeat_interval_ms if result.member_epoch >= 0 else 0,
        assignment=None
        if result.assigned is None
        else Response.Assignment(
            topic_partitions=partitions_to_topics(result.assigned, TopicPartitions)
        ),
    )


def error_response(request: Request[ConsumerGroupHeartbeatRequest], error: KafkaError) -> Response:
    return Response(
        throttle_time_ms=0,
        error_code=code_of(error),
        error_message=error_message(error),
        member_epoch=0,
        heartbeat_interval_ms=0,
    )
