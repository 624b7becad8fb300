"""IncrementalAlterConfigs: single settings of topics, brokers and loggers are changed."""

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
    """What changes them."""

    async def incremental_alter_configs(
        self,
        resource_type: ResourceType,
        name: str,
        changes: Sequence[Resource.Config],
        *,
        validate_only: bool,
    ) -> None:
        """Raises a KafkaError."""


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
