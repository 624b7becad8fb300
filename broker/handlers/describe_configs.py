"""DescribeConfigs: the settings of topics, brokers and loggers, and the source of each value.

Version 0 has a field that says whether a value is the default.  Kafka 3.9 always sends false, and
so does this handler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odradek.broker.admin.config_resources import ResourceType
from odradek.broker.handlers.error_messages import error_message
from odradek.broker.request import Request
from odradek.broker.time_slice import TimeSlice
from odradek.protocol.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from odradek.protocol.errors import InvalidRequest, KafkaError, code_of

ResourceResponse = DescribeConfigsResponse.Resource


class ConfigDescriber(Protocol):
    """Describes the settings of one resource."""

    async def describe_configs(
        self, resource_type: ResourceType, name: str
    ) -> Sequence[ResourceResponse.Config]:
        """Raise a KafkaError if the resource cannot be described."""


async def handle(
    config_describer: ConfigDescriber, request: Request[DescribeConfigsRequest]
) -> DescribeConfigsResponse:
    resources = request.body.resources
    for resource in resources:
        if ResourceType.for_id(resource.resource_type) is ResourceType.UNKNOWN:
            raise InvalidRequest(f"Unexpected resource type {resource.resource_type}.")
    time_slice, results = TimeSlice(), []
    for resource in resources:
        results.append(await _describe_resource(config_describer, request.body, resource))
        if time_slice.is_used_up:
            await time_slice.yield_to_loop()
    return DescribeConfigsResponse(throttle_time_ms=0, results=results)


def error_response(
    request: Request[DescribeConfigsRequest], error: KafkaError
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        throttle_time_ms=0,
        results=[_resource_error(each, error) for each in request.body.resources],
    )


async def _describe_resource(
    config_describer: ConfigDescriber,
    body: DescribeConfigsRequest,
    resource: DescribeConfigsRequest.Resource,
) -> ResourceResponse:
    resource_type = ResourceType.for_id(resource.resource_type)
    try:
        configs = await config_describer.describe_configs(resource_type, resource.resource_name)
    except KafkaError as error:
        return _resource_error(resource, error)
    # A null or empty list of keys means all settings.
    keys = set(resource.configuration_keys or ())
    selected = [config for config in configs if not keys or config.name in keys]
    for config in selected:
        if not body.include_synonyms:
            config.synonyms = []
        # An empty documentation stays: resources without any, such as loggers, send "" not null.
        if not body.include_documentation and config.documentation:
            config.documentation = None
    return ResourceResponse(
        error_code=0,
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=selected,
    )


def _resource_error(
    resource: DescribeConfigsRequest.Resource, error: KafkaError
) -> ResourceResponse:
    return ResourceResponse(
        error_code=code_of(error),
        error_message=error_message(error) or "",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )
