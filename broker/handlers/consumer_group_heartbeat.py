"""ConsumerGroupHeartbeat: a member of the consumer protocol joins, is assigned, stays, leaves.

Where many names have to be matched with an expression, that is done in turns before.
"""

from __future__ import annotations

from collections.abc import Awaitable

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
    shard = groups.shard_of_members(request.group_id)
    expressions = unmatched(shard, request)
    if expressions:
        return _handle_in_turns(groups, call, expressions)
    # As Java shows an address.
    client = Client(call.client_id or "", f"/{call.peer.client_host}")
    told = heartbeat(shard, request, client)
    timings = groups.world.timings_of(request.group_id)
    response = _response(told, interval_ms=timings.heartbeat_interval_ms)
    return when_replicated(shard.log, response)


async def _handle_in_turns(
    groups: GroupCoordinator, call: Call[ConsumerGroupHeartbeatRequest], expressions: list[str]
) -> Response | Parked[Response]:
    """From the beginning: the group may have moved meanwhile."""
    await groups.world.topics.match_in_turns(expressions)
    answer = handle(groups, call)
    return answer if isinstance(answer, Response | Parked) else await answer


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
