"""DescribeConfigs: what is set, of topics, brokers and loggers, and where it was written.

Version 0 has a field for whether a value is the default.  Kafka 3.9 leaves it false, always, and so
does this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odradek.broker.admin.resources import ResourceType
from odradek.broker.call import Call
from odradek.broker.handlers.refusals import words
from odradek.broker.turns import Turn
from odradek.protocol.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from odradek.protocol.errors import InvalidRequest, KafkaError, code_of

Answer = DescribeConfigsResponse.Resource


class Descriptions(Protocol):
    """What a broker knows of configurations."""

    async def describe(self, kind: ResourceType, name: str) -> Sequence[Answer.Config]:
        """Raises a KafkaError."""


async def handle(
    descriptions: Descriptions, call: Call[DescribeConfigsRequest]
) -> DescribeConfigsResponse:
    resources = call.request.resources
    for resource in resources:
        if ResourceType.of(resource.resource_type) is ResourceType.UNKNOWN:
            raise InvalidRequest(f"There is no resource of type {resource.resource_type}.")
    turn, results = Turn(), []
    for resource in resources:
        results.append(await _described(descriptions, call.request, resource))
        if turn.is_over:
            await turn.next()
    return DescribeConfigsResponse(throttle_time_ms=0, results=results)


def refused(call: Call[DescribeConfigsRequest], failure: KafkaError) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        throttle_time_ms=0, results=[_refusal(each, failure) for each in call.request.resources]
    )


async def _described(
    descriptions: Descriptions,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsRequest.Resource,
) -> Answer:
    kind = ResourceType.of(resource.resource_type)
    try:
        configs = await descriptions.describe(kind, resource.resource_name)
    except KafkaError as failure:
        return _refusal(resource, failure)
    # No keys at all are those of a client that means every one.
    wanted = set(resource.configuration_keys or ())
    chosen = [config for config in configs if not wanted or config.name in wanted]
    for config in chosen:
        if not request.include_synonyms:
            config.synonyms = []
        # Empty where there is none to be had, as for loggers.
        if not request.include_documentation and config.documentation:
            config.documentation = None
    return Answer(
        error_code=0,
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=chosen,
    )


def _refusal(resource: DescribeConfigsRequest.Resource, failure: KafkaError) -> Answer:
    return Answer(
        error_code=code_of(failure),
        error_message=words(failure) or "",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )
