"""CreatePartitions: add partitions to topics, and respond when all partitions have leaders.

Each topic succeeds or fails independently.  The timeout has the same meaning as in CreateTopics.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

from odradek.broker.handlers.controller_guard import (
    ControllerGuard,
    check_active,
    run_as_controller,
)
from odradek.broker.handlers.create_topics import ClusterMetadata
from odradek.broker.handlers.error_messages import error_message
from odradek.broker.request import DelayedOperation, Request
from odradek.controller.topic_planning import CreatePartitionsTopic, NewPartitions
from odradek.protocol.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from odradek.protocol.errors import KafkaError, RequestTimedOut, code_of


class Admin(Protocol):
    """The part of the topic administration that adds partitions."""

    async def plan_partitions(
        self, entries: Sequence[CreatePartitionsTopic], /
    ) -> Mapping[str, NewPartitions | KafkaError]: ...

    async def create_partitions(
        self, new_partitions: Sequence[NewPartitions], /
    ) -> Mapping[str, KafkaError]: ...


def handle(
    controller: ControllerGuard,
    admin: Admin,
    metadata_cache: ClusterMetadata,
    request: Request[CreatePartitionsRequest],
) -> Awaitable[CreatePartitionsResponse | DelayedOperation[CreatePartitionsResponse]]:
    check_active(controller)
    return run_as_controller(_create_partitions(admin, metadata_cache, request.body))


def error_response(
    request: Request[CreatePartitionsRequest], error: KafkaError
) -> CreatePartitionsResponse:
    return _build_response({each.name: error for each in request.body.topics})


async def _create_partitions(
    admin: Admin, metadata_cache: ClusterMetadata, body: CreatePartitionsRequest
) -> CreatePartitionsResponse | DelayedOperation[CreatePartitionsResponse]:
    plans = await admin.plan_partitions(body.topics)
    errors: dict[str, KafkaError | None] = {
        each.name: plan if isinstance(plan := plans[each.name], KafkaError) else None
        for each in body.topics
    }
    new_partitions = [plan for plan in plans.values() if isinstance(plan, NewPartitions)]
    if not new_partitions or body.validate_only:
        return _build_response(errors)
    errors |= await admin.create_partitions(new_partitions)
    created = {
        each.entry.name: range(each.entry.count)
        for each in new_partitions
        if errors[each.entry.name] is None
    }
    timeout_ms = body.timeout_ms
    return DelayedOperation(
        partial(_respond_when_led, metadata_cache, errors, created, timeout_ms=timeout_ms)
    )


async def _respond_when_led(
    metadata_cache: ClusterMetadata,
    errors: dict[str, KafkaError | None],
    partitions: Mapping[str, Collection[int]],
    *,
    timeout_ms: int,
) -> CreatePartitionsResponse:
    timed_out: Collection[str] = partitions
    if timeout_ms > 0:
        timed_out = await metadata_cache.wait_for_leaders(partitions, timeout_s=timeout_ms / 1000)
    return _build_response(errors | dict.fromkeys(timed_out, RequestTimedOut()))


def _build_response(errors: Mapping[str, KafkaError | None]) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        throttle_time_ms=0,
        results=[
            CreatePartitionsResponse.Topic(
                name=name, error_code=code_of(error), error_message=error_message(error)
            )
            for name, error in errors.items()
        ],
    )
