"""DeleteTopics: mark topics for deletion, and respond when the metadata no longer contains them.

The request gives the name of a topic or, from version 6 on, its id.  A topic that still exists when
the timeout expires gets REQUEST_TIMED_OUT.  With a timeout of 0 or less every topic does.
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
from odradek.broker.request import DelayedOperation, Request
from odradek.protocol.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import (
    InvalidRequest,
    KafkaError,
    TopicDeletionDisabled,
    code_of,
)
from odradek.protocol.types import ZERO_UUID, Uuid

FIRST_VERSION_WITH_TOPIC_IDS = 6
#: Earlier clients do not know TOPIC_DELETION_DISABLED and get INVALID_REQUEST.
FIRST_VERSION_WITH_DELETION_DISABLED = 3

TopicRequest = DeleteTopicsRequest.Topic
TopicResponse = DeleteTopicsResponse.Topic


class Admin(Protocol):
    """The part of the topic administration that deletes topics."""

    async def request_deletions(self, names: Collection[str], /) -> Mapping[str, KafkaError]: ...


class ClusterMetadata(Protocol):
    """The part of the metadata cache that this handler needs."""

    def has_topic(self, name: str, /) -> bool: ...

    def topic_name(self, topic_id: Uuid, /) -> str | None: ...

    async def wait_until_deleted(
        self, topics: Collection[str], /, *, timeout_s: float
    ) -> Collection[str]: ...


def handle(
    controller: ControllerGuard,
    admin: Admin,
    metadata_cache: ClusterMetadata,
    is_deletion_enabled: bool,
    request: Request[DeleteTopicsRequest],
) -> DeleteTopicsResponse | Awaitable[DelayedOperation[DeleteTopicsResponse]]:
    """``is_deletion_enabled`` is delete.topic.enable."""
    check_active(controller)
    if not is_deletion_enabled:
        raise (
            TopicDeletionDisabled
            if request.version >= FIRST_VERSION_WITH_DELETION_DISABLED
            else InvalidRequest
        )
    response = DeleteTopicsResponse(
        responses=[_resolve_topic(metadata_cache, each) for each in _topic_requests(request)]
    )
    if all(each.error_code for each in response.responses):
        return response
    deletion = _delete(admin, metadata_cache, response, timeout_ms=request.body.timeout_ms)
    return run_as_controller(deletion)


def error_response(
    request: Request[DeleteTopicsRequest], error: KafkaError
) -> DeleteTopicsResponse:
    code = code_of(error)
    return DeleteTopicsResponse(
        responses=[
            TopicResponse(name=each.name, topic_id=each.topic_id, error_code=code)
            for each in _topic_requests(request)
        ]
    )


async def _delete(
    admin: Admin,
    metadata_cache: ClusterMetadata,
    response: DeleteTopicsResponse,
    *,
    timeout_ms: int,
) -> DelayedOperation[DeleteTopicsResponse]:
    names = {each.name for each in response.responses if each.name and not each.error_code}
    errors = await admin.request_deletions(names)
    error_codes = {name: code_of(error) for name, error in errors.items()}
    deleting = names - error_codes.keys()
    return DelayedOperation(
        partial(
            _respond_when_deleted,
            metadata_cache,
            deleting,
            error_codes,
            response,
            timeout_ms=timeout_ms,
        )
    )


async def _respond_when_deleted(
    metadata_cache: ClusterMetadata,
    deleting: Collection[str],
    error_codes: dict[str, int],
    response: DeleteTopicsResponse,
    *,
    timeout_ms: int,
) -> DeleteTopicsResponse:
    timed_out: Collection[str] = deleting
    if deleting and timeout_ms > 0:
        timed_out = await metadata_cache.wait_until_deleted(deleting, timeout_s=timeout_ms / 1000)
    error_codes |= dict.fromkeys(timed_out, ErrorCode.REQUEST_TIMED_OUT.code)
    for topic in response.responses:
        if not topic.error_code and topic.name:
            topic.error_code = error_codes.get(topic.name, ErrorCode.NONE.code)
    return response


def _topic_requests(request: Request[DeleteTopicsRequest]) -> list[TopicRequest]:
    if request.version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return request.body.topics
    return [TopicRequest(name=name, topic_id=ZERO_UUID) for name in request.body.topic_names]


def _resolve_topic(metadata_cache: ClusterMetadata, topic_request: TopicRequest) -> TopicResponse:
    """Return the response entry of a topic, with an error code if the topic cannot be deleted."""
    name, topic_id = topic_request.name, topic_request.topic_id
    if name is not None and topic_id != ZERO_UUID:
        raise InvalidRequest("Topic name and topic ID can not both be specified.")
    if topic_id != ZERO_UUID:
        name = metadata_cache.topic_name(topic_id)
    return TopicResponse(
        name=name,
        topic_id=topic_id,
        error_code=_topic_error_code(metadata_cache, name, topic_id).code,
    )


def _topic_error_code(
    metadata_cache: ClusterMetadata, name: str | None, topic_id: Uuid
) -> ErrorCode:
    if name is None:
        # Kafka treats an entry with neither name nor id as an unauthorized topic.
        has_neither = topic_id == ZERO_UUID
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED if has_neither else ErrorCode.UNKNOWN_TOPIC_ID
    if not metadata_cache.has_topic(name):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE
