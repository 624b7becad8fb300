"""IncrementalAlterConfigs: change single settings of topics, brokers and loggers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odradek.broker.admin.config_resources import ResourceType
from odradek.broker.handlers import alter_config_resources
from odradek.broker.request import Request
from odradek.protocol.api.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.errors import KafkaError

Resource = IncrementalAlterConfigsRequest.Resource
ResourceResponse = IncrementalAlterConfigsResponse.Resource


class ConfigManager(Protocol):
    """The part of the config manager that changes single settings."""

    async def incremental_alter_configs(
        self,
        resource_type: ResourceType,
        name: str,
        changes: Sequence[Resource.Config],
        *,
        validate_only: bool,
    ) -> None:
        """Raise a KafkaError if the change is rejected."""


async def handle(
    config_manager: ConfigManager, request: Request[IncrementalAlterConfigsRequest]
) -> IncrementalAlterConfigsResponse:
    responses = await alter_config_resources.alter_resources(
        request.body, config_manager.incremental_alter_configs, ResourceResponse
    )
    return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=responses)


def error_response(
    request: Request[IncrementalAlterConfigsRequest], error: KafkaError
) -> IncrementalAlterConfigsResponse:
    responses = alter_config_resources.error_responses(request.body, error, ResourceResponse)
    return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=responses)
