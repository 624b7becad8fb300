"""ConsumerGroupHeartbeat: a member of the consumer protocol joins, is assigned, stays, leaves."""

from __future__ import annotations

from odradek.broker.call import Call, Parked
from odradek.broker.coordinator.log_failures import OF_A_HEARTBEAT, told
from odradek.broker.groups.classic.outcomes import Client
from odradek.broker.groups.consumer.heartbeat import Told
from odradek.broker.groups.consumer.partitions import to_topics
from odradek.broker.groups.consumer.requests import check, heartbeat
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.handlers.refusals import words
from odradek.protocol.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from odradek.protocol.errors import KafkaError, code_of

Response = ConsumerGroupHeartbeatResponse


def handle(
    groups: GroupCoordinator, call: Call[ConsumerGroupHeartbeatRequest]
) -> Response | Parked[Response]:
    request, settings = call.request, groups.world.consumer_settings
    check(settings, request, version=call.version)
    shard = groups.shard_of_members(request.group_id)
    # As Java shows an address.
    client = Client(call.client_id or "", f"/{call.peer.client_host}")
    response = _response(
        heartbeat(shard, request, client), interval_ms=settings.heartbeat_interval_ms
    )
    if shard.log.is_settled:
        return response

    async def answer_when_replicated() -> Response:
        try:
            await shard.log.wait_until_settled()
        except KafkaError as failure:
            return refused(call, told(failure, OF_A_HEARTBEAT))
        return response

    return Parked(answer_when_replicated, ends_alone=True)


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
