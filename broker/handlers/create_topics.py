"""CreateTopics: create topics, and respond when they have leaders.

Each topic succeeds or fails independently.  A topic that was created but has no leaders when the
timeout expires gets REQUEST_TIMED_OUT.  With a timeout of 0 or less every created topic does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping
from functools import partial
from typing import Protocol

from odradek.broker.handlers.controller_guard import (
    ControllerGuard,
    check_active,
    run_as_controller,
)
from odradek.broker.handlers.error_messages import error_message
from odradek.broker.metadata.auto_topic_creation_manager import TopicAdmin
from odradek.broker.request import DelayedOperation, Request
from odradek.broker.time_slice import TimeSlice
from odradek.controller.topic_planning import NewTopic
from odradek.protocol.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, RequestTimedOut, code_of

TopicResponse = CreateTopicsResponse.Topic
TopicPlans = Mapping[str, NewTopic | KafkaError]


class ClusterMetadata(Protocol):
    """The part of the metadata cache that waits for leaders."""

    async def wait_for_leaders(
        self, partitions: Mapping[str, Collection[int]], /, *, timeout_s: float
    ) -> Collection[str]: ...


def handle(
    controller: ControllerGuard,
    admin: TopicAdmin,
    metadata_cache: ClusterMetadata,
    request: Request[CreateTopicsRequest],
) -> Awaitable[CreateTopicsResponse | DelayedOperation[CreateTopicsResponse]]:
    check_active(controller)
    return run_as_controller(_create(admin, metadata_cache, request.body))


def error_response(
    request: Request[CreateTopicsRequest], error: KafkaError
) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[_topic_error(each.name, error) for each in request.body.topics]
    )


async def _create(
    admin: TopicAdmin, metadata_cache: ClusterMetadata, body: CreateTopicsRequest
) -> CreateTopicsResponse | DelayedOperation[CreateTopicsResponse]:
    plans = dict(await admin.plan_topics(body.topics))
    created = [plan for plan in plans.values() if isinstance(plan, NewTopic)]
    if not created or body.validate_only:
        return await _build_response(body, plans)
    plans |= await admin.create_topics(created)
    return DelayedOperation(partial(_respond_when_led, metadata_cache, body, plans))


async def _respond_when_led(
    metadata_cache: ClusterMetadata, body: CreateTopicsRequest, plans: TopicPlans
) -> CreateTopicsResponse:
    created = [plan for plan in plans.values() if isinstance(plan, NewTopic)]
    timed_out = await _wait_for_leaders(metadata_cache, created, timeout_ms=body.timeout_ms)
    return await _build_response(body, plans, timed_out)


async def _build_response(
    body: CreateTopicsRequest, plans: TopicPlans, timed_out: Collection[str] = ()
) -> CreateTopicsResponse:
    topic_responses = (
        _topic_response(entry.name, plans[entry.name], body, is_timed_out=entry.name in timed_out)
        for entry in body.topics
    )
    return CreateTopicsResponse(topics=await TimeSlice().collect(topic_responses))


async def _wait_for_leaders(
    metadata_cache: ClusterMetadata, topics: Collection[NewTopic], *, timeout_ms: int
) -> Collection[str]:
    partitions = {each.name: each.assignment.partitions.keys() for each in topics}
    if timeout_ms <= 0:
        return partitions.keys()
    return await metadata_cache.wait_for_leaders(partitions, timeout_s=timeout_ms / 1000)


def _topic_response(
    name: str, plan: NewTopic | KafkaError, body: CreateTopicsRequest, *, is_timed_out: bool
) -> TopicResponse:
    if isinstance(plan, KafkaError):
        return _topic_error(name, plan)
    response = (
        _topic_error(name, RequestTimedOut()) if is_timed_out else _created_topic_response(plan)
    )
    if not body.validate_only and plan.assignment.topic_id is not None:
        response.topic_id = plan.assignment.topic_id
    return response


def _topic_error(name: str, error: KafkaError) -> TopicResponse:
    return TopicResponse(name=name, error_code=code_of(error), error_message=error_message(error))


def _created_topic_response(plan: NewTopic) -> TopicResponse:
    described = [plan.settings.describe(name) for name in plan.settings.by_name]
    return TopicResponse(
        name=plan.name,
        error_code=ErrorCode.NONE.code,
        error_message=None,
        num_partitions=len(plan.assignment.partitions),
        replication_factor=plan.replication_factor,
        configs=[
            TopicResponse.Config(
                name=each.setting.name,
                value=each.value,
                read_only=each.read_only,
                config_source=each.source.value,
                is_sensitive=each.setting.sensitive,
            )
            for each in described
        ],
    )
