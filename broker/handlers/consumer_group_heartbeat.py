"""ConsumerGroupHeartbeat: a member of the consumer protocol joins, is assigned, stays, leaves.

Where many names have to be matched with an expression, that is done in turns before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from odradek.broker.call import Call, Parked
from odradek.broker.groups.classic.outcomes import Client
from odradek.broker.groups.consumer.heartbeat import Told
from odradek.broker.groups.consumer.partitions import to_topics
from odradek.broker.groups.consumer.requests import check, heartbeat, unmatched
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.handlers.refusals import words
from odradek.broker.handlers.replicated import when_replicated
from odradek.protocol.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from odradek.protocol.errors import KafkaError, code_of

Response = ConsumerGroupHeartbeatResponse


def handle(
    groups: GroupCoordinator, call: Call[ConsumerGroupHeartbeatRequest]
) -> Response | Awaitable[Response | Parked[Response]]:
    request, settings = call.request, groups.world.consumer_settings
    check(settings, request, version=call.version)
    groups.forget_unused_expressions()
    expressions = unmatched(groups.shard_of_members(request.group_id), request)
    if expressions:
        return _handle_in_turns(groups, call, expressions)
    return _handle_at_once(groups, call)


async def _handle_in_turns(
    groups: GroupCoordinator, call: Call[ConsumerGroupHeartbeatRequest], expressions: Iterable[str]
) -> Response | Parked[Response]:
    """Names that come meanwhile are few: they are matched at once, or this might never end."""
    await groups.world.topics.match_in_turns(expressions)
    return _handle_at_once(groups, call)


def _handle_at_once(
    groups: GroupCoordinator, call: Call[ConsumerGroupHeartbeatRequest]
) -> Response | Parked[Response]:
    request, shard = call.request, groups.shard_of_members(call.request.group_id)
    # As Java shows an address.
    client = Client(call.client_id or "", f"/{call.peer.client_host}")
    told = heartbeat(shard, request, client)
    timings = groups.world.timings_of(request.group_id)
    response = _response(told, interval_ms=timings.heartbeat_interval_ms)
    return when_replicated(shard.log, response)


def _response(told: Told, *, interval_ms: int) -> Response:
    """Whoever leaves need not know when to come again."""
    return Response(
        throttle_time_ms=0,
        error_code=0,
        member_id=told.member_id,
        member_epoch=told.epoch,
        heartbeat_interval_ms=interval_ms if told.epoch >= 0 else 0,
        assignment=None
        if told.assigned is None
        else Response.Assignment(topic_partitions=to_topics(told.assigned, TopicPartitions)),
    )


def refused(call: Call[ConsumerGroupHeartbeatRequest], failure: KafkaError) -> Response:
    return Response(
        throttle_time_ms=0,
        error_code=code_of(failure),
        error_message=words(failure),
        member_epoch=0,
        heartbeat_interval_ms=0,
    )
