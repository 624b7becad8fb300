"""CreatePartitions: give topics more partitions, and answer when all of them have leaders.

Each topic succeeds or fails alone.  Time is given as in CreateTopics.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

from odradek.broker.call import Call, Parked
from odradek.broker.handlers.create_topics import Cluster
from odradek.broker.handlers.office import Office, answered_in_office, check_active
from odradek.broker.handlers.refusals import words
from odradek.controller.topic_requests import Growth, GrowthEntry
from odradek.protocol.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from odradek.protocol.errors import KafkaError, RequestTimedOut, code_of


class Admin(Protocol):
    """The part of the administration of topics that lets them grow."""

    async def plan_growths(
        self, entries: Sequence[GrowthEntry], /
    ) -> Mapping[str, Growth | KafkaError]: ...

    async def grow_topics(self, growths: Sequence[Growth], /) -> Mapping[str, KafkaError]: ...


def handle(
    office: Office, admin: Admin, cluster: Cluster, call: Call[CreatePartitionsRequest]
) -> Awaitable[CreatePartitionsResponse | Parked[CreatePartitionsResponse]]:
    check_active(office)
    return answered_in_office(_grown(admin, cluster, call.request))


def refused(call: Call[CreatePartitionsRequest], failure: KafkaError) -> CreatePartitionsResponse:
    return _response({each.name: failure for each in call.request.topics})


async def _grown(
    admin: Admin, cluster: Cluster, request: CreatePartitionsRequest
) -> CreatePartitionsResponse | Parked[CreatePartitionsResponse]:
    plans = await admin.plan_growths(request.topics)
    outcomes: dict[str, KafkaError | None] = {
        each.name: plan if isinstance(plan := plans[each.name], KafkaError) else None
        for each in request.topics
    }
    growths = [plan for plan in plans.values() if isinstance(plan, Growth)]
    if not growths or request.validate_only:
        return _response(outcomes)
    outcomes |= await admin.grow_topics(growths)
    grown = {
        each.entry.name: range(each.entry.count)
        for each in growths
        if outcomes[each.entry.name] is None
    }
    timeout_ms = request.timeout_ms
    return Parked(partial(_answer_when_led, cluster, outcomes, grown, timeout_ms=timeout_ms))


async def _answer_when_led(
    cluster: Cluster,
    outcomes: dict[str, KafkaError | None],
    grown: Mapping[str, Collection[int]],
    *,
    timeout_ms: int,
) -> CreatePartitionsResponse:
    late: Collection[str] = grown
    if timeout_ms > 0:
        late = await cluster.wait_for_leaders(grown, timeout_s=timeout_ms / 1000)
    return _response(outcomes | dict.fromkeys(late, RequestTimedOut()))


def _response(outcomes: Mapping[str, KafkaError | None]) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        throttle_time_ms=0,
        results=[
            CreatePartitionsResponse.Topic(
                name=name, error_code=code_of(failure), error_message=words(failure)
            )
            for name, failure in outcomes.items()
        ],
    )
