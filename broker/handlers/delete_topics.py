"""DeleteTopics: mark topics to be deleted, and answer when they are gone from the picture.

A topic is given by its name or, from version 6 on, by its id.  One that is not gone when the time
is over is answered REQUEST_TIMED_OUT; so is every one if the client gives no time at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping
from functools import partial
from typing import Protocol

from odradek.broker.call import Call, Parked
from odradek.broker.handlers.office import Office, answered_in_office, check_active
from odradek.protocol.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import (
    InvalidRequest,
    KafkaError,
    TopicDeletionDisabled,
    code_of,
)
from odradek.protocol.types import ZERO_UUID, Uuid

BY_TOPIC_ID = 6
#: Before it, clients do not know that deletion can be disabled.
KNOWS_DISABLED = 3

Asked = DeleteTopicsRequest.Topic
Answer = DeleteTopicsResponse.Topic


class Admin(Protocol):
    """The part of the administration of topics that deletes them."""

    async def request_deletions(self, names: Collection[str], /) -> Mapping[str, KafkaError]: ...


class Cluster(Protocol):
    """Where it is seen which topics there are."""

    def has_topic(self, name: str, /) -> bool: ...

    def name_of(self, topic_id: Uuid, /) -> str | None: ...

    async def wait_until_gone(
        self, topics: Collection[str], /, *, timeout_s: float
    ) -> Collection[str]: ...


def handle(
    office: Office,
    admin: Admin,
    cluster: Cluster,
    is_enabled: bool,
    call: Call[DeleteTopicsRequest],
) -> DeleteTopicsResponse | Awaitable[Parked[DeleteTopicsResponse]]:
    """``is_enabled`` is delete.topic.enable."""
    check_active(office)
    if not is_enabled:
        raise TopicDeletionDisabled if call.version >= KNOWS_DISABLED else InvalidRequest
    response = DeleteTopicsResponse(responses=[_found(cluster, each) for each in _asked(call)])
    if all(each.error_code for each in response.responses):
        return response
    deleted = _deleted(admin, cluster, response, timeout_ms=call.request.timeout_ms)
    return answered_in_office(deleted)


def refused(call: Call[DeleteTopicsRequest], failure: KafkaError) -> DeleteTopicsResponse:
    code = code_of(failure)
    return DeleteTopicsResponse(
        responses=[
            Answer(name=each.name, topic_id=each.topic_id, error_code=code) for each in _asked(call)
        ]
    )


async def _deleted(
    admin: Admin, cluster: Cluster, response: DeleteTopicsResponse, *, timeout_ms: int
) -> Parked[DeleteTopicsResponse]:
    names = {each.name for each in response.responses if each.name and not each.error_code}
    failed = await admin.request_deletions(names)
    codes = {name: code_of(failure) for name, failure in failed.items()}
    going = names - codes.keys()
    return Parked(
        partial(_answer_when_gone, cluster, going, codes, response, timeout_ms=timeout_ms)
    )


async def _answer_when_gone(
    cluster: Cluster,
    going: Collection[str],
    codes: dict[str, int],
    response: DeleteTopicsResponse,
    *,
    timeout_ms: int,
) -> DeleteTopicsResponse:
    late: Collection[str] = going
    if going and timeout_ms > 0:
        late = await cluster.wait_until_gone(going, timeout_s=timeout_ms / 1000)
    codes |= dict.fromkeys(late, ErrorCode.REQUEST_TIMED_OUT.code)
    for each in response.responses:
        if not each.error_code and each.name:
            each.error_code = codes.get(each.name, ErrorCode.NONE.code)
    return response


def _asked(call: Call[DeleteTopicsRequest]) -> list[Asked]:
    if call.version >= BY_TOPIC_ID:
        return call.request.topics
    return [Asked(name=name, topic_id=ZERO_UUID) for name in call.request.topic_names]


def _found(cluster: Cluster, asked: Asked) -> Answer:
    """What is to be deleted; with an error if it cannot be."""
    name, topic_id = asked.name, asked.topic_id
    if name is not None and topic_id != ZERO_UUID:
        raise InvalidRequest("A topic is given by its name or by its id, not by both.")
    if topic_id != ZERO_UUID:
        name = cluster.name_of(topic_id)
    return Answer(name=name, topic_id=topic_id, error_code=_fault(cluster, name, topic_id).code)


def _fault(cluster: Cluster, name: str | None, topic_id: Uuid) -> ErrorCode:
    if name is None:
        # Without an id either, Kafka takes it for a topic that the client may not touch.
        by_nothing = topic_id == ZERO_UUID
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED if by_nothing else ErrorCode.UNKNOWN_TOPIC_ID
    if not cluster.has_topic(name):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE
