"""IncrementalAlterConfigs: single settings of topics, brokers and loggers are changed.

Each resource succeeds or fails alone.  One that is named twice is refused both times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from odradek.broker.admin.resources import ResourceType
from odradek.broker.call import Call
from odradek.broker.handlers.refusals import words
from odradek.protocol.api.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.errors import InvalidRequest, KafkaError, code_of

Resource = IncrementalAlterConfigsRequest.Resource
Answer = IncrementalAlterConfigsResponse.Resource


class Configurations(Protocol):
    """What changes them."""

    async def alter(
        self,
        kind: ResourceType,
        name: str,
        changes: Sequence[Resource.Config],
        *,
        validate_only: bool,
    ) -> None:
        """Raises a KafkaError."""


async def handle(
    configurations: Configurations, call: Call[IncrementalAlterConfigsRequest]
) -> IncrementalAlterConfigsResponse:
    request = call.request
    named = Counter((each.resource_type, each.resource_name) for each in request.resources)
    responses = []
    for resource in request.resources:
        failure: KafkaError | None = None
        try:
            if named[resource.resource_type, resource.resource_name] > 1:
                raise InvalidRequest("A resource can be named once in a request.")
            await configurations.alter(
                ResourceType.of(resource.resource_type),
                resource.resource_name,
                resource.configs,
                validate_only=request.validate_only,
            )
        except KafkaError as refusal:
            failure = refusal
        responses.append(_answer(resource, failure))
    return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=responses)


def refused(
    call: Call[IncrementalAlterConfigsRequest], failure: KafkaError
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        throttle_time_ms=0, responses=[_answer(each, failure) for each in call.request.resources]
    )


def _answer(resource: Resource, failure: KafkaError | None) -> Answer:
    return Answer(
        error_code=code_of(failure),
        error_message=words(failure),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
