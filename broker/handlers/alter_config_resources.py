"""Configuration changes of AlterConfigs and IncrementalAlterConfigs, resource by resource.

Each resource succeeds or fails independently.  A resource that occurs twice in a request is
rejected both times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from odradek.broker.admin.config_resources import ResourceType
from odradek.broker.handlers.error_messages import error_message
from odradek.protocol.errors import InvalidRequest, KafkaError, code_of


class AlterConfigsResource(Protocol):
    """A resource of a request, with its new settings."""

    resource_type: int
    resource_name: str
    configs: Any


class AlterConfigsBody(Protocol):
    """The body of AlterConfigs or IncrementalAlterConfigs."""

    @property
    def resources(self) -> Sequence[AlterConfigsResource]: ...

    @property
    def validate_only(self) -> bool: ...


#: A response entry: error code and message, type and name of the resource.
ResourceResponse = TypeVar("ResourceResponse")


async def alter_resources(
    body: AlterConfigsBody,
    alter: Callable[..., Awaitable[None]],
    response_type: Callable[..., ResourceResponse],
) -> list[ResourceResponse]:
    """Apply the changes and return one response entry per resource.

    ``alter`` takes the resource type, the name, the configs and ``validate_only``.  It raises a
    KafkaError to reject the change.
    """
    entries = body.resources
    counts = Counter((each.resource_type, each.resource_name) for each in entries)
    responses = []
    for entry in entries:
        error: KafkaError | None = None
        try:
            if counts[entry.resource_type, entry.resource_name] > 1:
                raise InvalidRequest("Each resource must appear at most once.")
            await alter(
                ResourceType.for_id(entry.resource_type),
                entry.resource_name,
                entry.configs,
                validate_only=body.validate_only,
            )
        except KafkaError as raised:
            error = raised
        responses.append(_resource_response(entry, error, response_type))
    return responses


def error_responses(
    body: AlterConfigsBody, error: KafkaError, response_type: Callable[..., ResourceResponse]
) -> list[ResourceResponse]:
    """Return one entry with the same error for each resource."""
    return [_resource_response(entry, error, response_type) for entry in body.resources]


def _resource_response(
    resource: AlterConfigsResource,
    error: KafkaError | None,
    response_type: Callable[..., ResourceResponse],
) -> ResourceResponse:
    return response_type(
        error_code=code_of(error),
        error_message=error_message(error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
