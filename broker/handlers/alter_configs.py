"""AlterConfigs: all settings of topics and brokers are replaced.

What a resource was set to and is not named goes back to its default; for this, and because it races
with whoever else does so, clients should use IncrementalAlterConfigs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odradek.broker.admin.config_resources import ResourceType
from odradek.broker.handlers import alter_config_resources
from odradek.broker.request import Request
from odradek.protocol.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from odradek.protocol.errors import KafkaError

Resource = AlterConfigsRequest.Resource
ResourceResponse = AlterConfigsResponse.Resource


class ConfigManager(Protocol):
    """What replaces them."""

    async def alter_configs(
        self,
        resource_type: ResourceType,
        name: str,
        configs: Sequence[Resource.Config],
        *,
        validate_only: bool,
    ) -> None:
        """Raises a KafkaError."""


async def handle(
    config_manager: ConfigManager, request: Request[AlterConfigsRequest]
) -> AlterConfigsResponse:
    responses = await alter_config_resources.alter_resources(
        request.body, config_manager.alter_configs, ResourceResponse
    )
    return AlterConfigsResponse(throttle_time_ms=0, responses=responses)


def error_response(
    request: Request[AlterConfigsRequest], error: KafkaError
) -> AlterConfigsResponse:
    responses = alter_config_resources.error_responses(request.body, error, ResourceResponse)
    return AlterConfigsResponse(throttle_time_ms=0, responses=responses)
