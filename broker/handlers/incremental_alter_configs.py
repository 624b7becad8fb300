"""IncrementalAlterConfigs: single settings of topics, brokers and loggers are changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odradek.broker.admin.resources import ResourceType
from odradek.broker.call import Call
from odradek.broker.handlers import each_resource
from odradek.protocol.api.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.errors import KafkaError

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
    responses = await each_resource.changed(call.request, configurations.alter, Answer)
    return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=responses)


def refused(
    call: Call[IncrementalAlterConfigsRequest], failure: KafkaError
) -> IncrementalAlterConfigsResponse:
    responses = each_resource.refused(call.request, failure, Answer)
    return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=responses)
