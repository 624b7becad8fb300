"""AlterConfigs: all settings of topics and brokers are replaced.

What a resource was set to and is not named goes back to its default; for this, and because it races
with whoever else does so, clients should use IncrementalAlterConfigs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odradek.broker.admin.resources import ResourceType
from odradek.broker.call import Call
from odradek.broker.handlers import each_resource
from odradek.protocol.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from odradek.protocol.errors import KafkaError

Resource = AlterConfigsRequest.Resource
Answer = AlterConfigsResponse.Resource


class Configurations(Protocol):
    """What replaces them."""

    async def replace(
        self,
        kind: ResourceType,
        name: str,
        texts: Sequence[Resource.Config],
        *,
        validate_only: bool,
    ) -> None:
        """Raises a KafkaError."""


async def handle(
    configurations: Configurations, call: Call[AlterConfigsRequest]
) -> AlterConfigsResponse:
    responses = await each_resource.changed(call.request, configurations.replace, Answer)
    return AlterConfigsResponse(throttle_time_ms=0, responses=responses)


def refused(call: Call[AlterConfigsRequest], failure: KafkaError) -> AlterConfigsResponse:
    responses = each_resource.refused(call.request, failure, Answer)
    return AlterConfigsResponse(throttle_time_ms=0, responses=responses)
