"""AlterConfigs: replace all settings of topics and brokers.

A setting that the request does not name returns to its default.  For this reason, and because
concurrent requests overwrite each other, clients should use IncrementalAlterConfigs.
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
    """The part of the config manager that replaces configurations."""

    async def alter_configs(
        self,
        resource_type: ResourceType,
        name: str,
        configs: Sequence[Resource.Config],
        *,
        validate_only: bool,
    ) -> None:
        """Raise a KafkaError if the change is rejected."""


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
