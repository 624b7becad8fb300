"""CreateTopics: create topics, and answer when they have leaders.

Each succeeds or fails alone.  A topic that is created, but has no leaders when the time is over, is
answered REQUEST_TIMED_OUT; so is every one if the client gives no time at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping
from functools import partial
from typing import Protocol

from odradek.broker.call import Call, Parked
from odradek.broker.handlers.office import Office, answered_in_office, check_active
from odradek.broker.handlers.refusals import words
from odradek.broker.metadata.topic_creator import Admin
from odradek.broker.turns import Turn
from odradek.controller.topic_requests import NewTopic
from odradek.protocol.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import KafkaError, RequestTimedOut, code_of

Answer = CreateTopicsResponse.Topic
Plans = Mapping[str, NewTopic | KafkaError]


class Cluster(Protocol):
    """Where it is seen that topics have leaders."""

    async def wait_for_leaders(
        self, partitions: Mapping[str, Collection[int]], /, *, timeout_s: float
    ) -> Collection[str]: ...


def handle(
    office: Office, admin: Admin, cluster: Cluster, call: Call[CreateTopicsRequest]
) -> Awaitable[CreateTopicsResponse | Parked[CreateTopicsResponse]]:
    check_active(office)
    return answered_in_office(_created(admin, cluster, call.request))


def refused(call: Call[CreateTopicsRequest], failure: KafkaError) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[_failed(each.name, failure) for each in call.request.topics]
    )


async def _created(
    admin: Admin, cluster: Cluster, request: CreateTopicsRequest
) -> CreateTopicsResponse | Parked[CreateTopicsResponse]:
    plans = dict(await admin.plan_topics(request.topics))
    created = [plan for plan in plans.values() if isinstance(plan, NewTopic)]
    if not created or request.validate_only:
        return await _response(request, plans)
    plans |= await admin.create_topics(created)
    return Parked(partial(_answer_when_led, cluster, request, plans))


async def _answer_when_led(
    cluster: Cluster, request: CreateTopicsRequest, plans: Plans
) -> CreateTopicsResponse:
    created = [plan for plan in plans.values() if isinstance(plan, NewTopic)]
    late = await _without_leaders(cluster, created, timeout_ms=request.timeout_ms)
    return await _response(request, plans, late)


async def _response(
    request: CreateTopicsRequest, plans: Plans, late: Collection[str] = ()
) -> CreateTopicsResponse:
    answers = (
        _answer(entry.name, plans[entry.name], request, is_late=entry.name in late)
        for entry in request.topics
    )
    return CreateTopicsResponse(topics=await Turn().listed(answers))


async def _without_leaders(
    cluster: Cluster, created: Collection[NewTopic], *, timeout_ms: int
) -> Collection[str]:
    partitions = {each.name: each.topic.partitions.keys() for each in created}
    if timeout_ms <= 0:
        return partitions.keys()
    return await cluster.wait_for_leaders(partitions, timeout_s=timeout_ms / 1000)


def _answer(
    name: str, plan: NewTopic | KafkaError, request: CreateTopicsRequest, *, is_late: bool
) -> Answer:
    if isinstance(plan, KafkaError):
        return _failed(name, plan)
    answer = _failed(name, RequestTimedOut()) if is_late else _planned(plan)
    if not request.validate_only and plan.topic.topic_id is not None:
        answer.topic_id = plan.topic.topic_id
    return answer


def _failed(name: str, failure: KafkaError) -> Answer:
    return Answer(name=name, error_code=code_of(failure), error_message=words(failure))


def _planned(plan: NewTopic) -> Answer:
    described = [plan.settings.describe(name) for name in plan.settings.by_name]
    return Answer(
        name=plan.name,
        error_code=ErrorCode.NONE.code,
        error_message=None,
        num_partitions=len(plan.topic.partitions),
        replication_factor=plan.replication_factor,
        configs=[
            Answer.Config(
                name=each.setting.name,
                value=each.text,
                read_only=each.read_only,
                config_source=each.layer.value,
                is_sensitive=each.setting.sensitive,
            )
            for each in described
        ],
    )
