"""FindCoordinator: find the broker that coordinates a group or a transactional id.

The first request creates the internal topic in which the coordinators store their state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from odradek.broker.handlers.error_messages import error_message
from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.request import Request
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import (
    CoordinatorNotAvailable,
    InvalidRequest,
    KafkaError,
    code_of,
)

GROUP, TRANSACTION, SHARE = 0, 1, 2
_FIRST_BATCHED_VERSION = 4
_FIRST_VERSION_WITH_SHARE_GROUPS = 6
_NO_NODE = Node(-1, "", -1, None)

Coordinator = FindCoordinatorResponse.Coordinator


class Lookup(Protocol):
    """Maps a key to its coordinator, by the partitions of one internal topic."""

    @property
    def is_ready(self) -> bool: ...

    async def prepare(self) -> None: ...

    def coordinator(self, key: str, /, *, listener: str) -> Node: ...


def handle(
    lookups: Mapping[int, Lookup], request: Request[FindCoordinatorRequest]
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """``lookups`` maps a key type to its lookup."""
    lookup = lookups.get(request.body.key_type)
    if lookup is not None and not lookup.is_ready and _keys(request):
        return _respond_when_topic_created(lookup, request)
    return _build_response(lookup, request)


async def _respond_when_topic_created(
    lookup: Lookup, request: Request[FindCoordinatorRequest]
) -> FindCoordinatorResponse:
    await lookup.prepare()
    return _build_response(lookup, request)


def _keys(request: Request[FindCoordinatorRequest]) -> Sequence[str]:
    if request.version < _FIRST_BATCHED_VERSION:
        return [request.body.key]
    return request.body.coordinator_keys


def _build_response(
    lookup: Lookup | None, request: Request[FindCoordinatorRequest]
) -> FindCoordinatorResponse:
    coordinators = [_find_coordinator(lookup, key, request) for key in _keys(request)]
    if request.version >= _FIRST_BATCHED_VERSION:
        return FindCoordinatorResponse(coordinators=coordinators)
    (coordinator,) = coordinators
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message or ErrorCode.NONE.name,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _find_coordinator(
    lookup: Lookup | None, key: str, request: Request[FindCoordinatorRequest]
) -> Coordinator:
    try:
        node = _coordinator_node(lookup, key, request)
    except KafkaError as error:
        return _coordinator_response(key, _NO_NODE, error)
    return _coordinator_response(key, node)


def _coordinator_node(
    lookup: Lookup | None, key: str, request: Request[FindCoordinatorRequest]
) -> Node:
    if lookup is not None:
        return lookup.coordinator(key, listener=request.context.listener)
    if request.body.key_type == SHARE and request.version >= _FIRST_VERSION_WITH_SHARE_GROUPS:
        raise CoordinatorNotAvailable("share groups are not supported")
    raise InvalidRequest(f"unknown coordinator key type {request.body.key_type}")


def _coordinator_response(key: str, node: Node, error: KafkaError | None = None) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=node.id,
        host=node.host,
        port=node.port,
        error_code=code_of(error),
        error_message="" if error is None else error_message(error) or error.error_code.message,
    )


def error_response(
    request: Request[FindCoordinatorRequest], error: KafkaError
) -> FindCoordinatorResponse:
    """Return the same error for every key."""
    coordinators = [_coordinator_response(key, _NO_NODE, error) for key in _keys(request)]
    if request.version >= _FIRST_BATCHED_VERSION:
        return FindCoordinatorResponse(coordinators=coordinators)
    return FindCoordinatorResponse(error_code=code_of(error), node_id=-1, port=-1)
