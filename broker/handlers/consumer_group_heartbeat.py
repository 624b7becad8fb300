"""ConsumerGroupHeartbeat: a member of a consumer group joins, stays, gets partitions or leaves.

If a regular expression has to be matched against many topic names, the handler matches them first,
in time slices.
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
    """Match the expressions in time slices, then handle the request.

    Topics that are created meanwhile are few.  They are matched inline: matching them in time
    slices as well might never end.
    """
    await groups.context.topics_provider.match_sliced(regexes)
    return _handle_inline(groups, request)


def _handle_inline(
    groups: GroupCoordinator, request: Request[ConsumerGroupHeartbeatRequest]
) -> Response | DelayedOperation[Response]:
    body, shard = request.body, groups.shard_for_nonempty_id(request.body.group_id)
    # Java writes an address with a leading slash.
    client = ClientIdentity(request.client_id or "", f"/{request.context.client_host}")
    result = heartbeat(shard, body, client)
    group_settings = groups.context.group_settings_for(body.group_id)
    response = _build_response(result, heartbeat_interval_ms=group_settings.heartbeat_interval_ms)
    return respond_when_replicated(shard.log, response)


def _build_response(result: HeartbeatResult, *, heartbeat_interval_ms: int) -> Response:
    """Build the response; a member that leaves (negative epoch) gets no heartbeat interval."""
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
