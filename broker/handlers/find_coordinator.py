"""FindCoordinator: which broker coordinates a group, or a transactional id?

The topic in which coordinators keep their state is created when it is first asked for one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from odradek.broker.call import Call
from odradek.broker.handlers.refusals import words
from odradek.broker.metadata.picture import Node
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.errors import (
    CoordinatorNotAvailable,
    InvalidRequest,
    KafkaError,
    code_of,
)

GROUP, TRANSACTION, SHARE = 0, 1, 2
_FIRST_VERSION_WITH_MANY_KEYS = 4
_FIRST_VERSION_OF_SHARE_GROUPS = 6
_NOBODY = Node(-1, "", -1, None)

Line = FindCoordinatorResponse.Coordinator


class Lookup(Protocol):
    """Who coordinates what, by one internal topic."""

    @property
    def is_known(self) -> bool: ...

    async def prepare(self) -> None: ...

    def coordinator(self, key: str, /, *, listener: str) -> Node: ...


def handle(
    lookups: Mapping[int, Lookup], call: Call[FindCoordinatorRequest]
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """``lookups`` are by the type of the key."""
    lookup = lookups.get(call.request.key_type)
    if lookup is not None and not lookup.is_known and _keys(call):
        return _answer_when_prepared(lookup, call)
    return _response(lookup, call)


async def _answer_when_prepared(
    lookup: Lookup, call: Call[FindCoordinatorRequest]
) -> FindCoordinatorResponse:
    await lookup.prepare()
    return _response(lookup, call)


def _keys(call: Call[FindCoordinatorRequest]) -> Sequence[str]:
    if call.version < _FIRST_VERSION_WITH_MANY_KEYS:
        return [call.request.key]
    return call.request.coordinator_keys


def _response(lookup: Lookup | None, call: Call[FindCoordinatorRequest]) -> FindCoordinatorResponse:
    lines = [_line(lookup, key, call) for key in _keys(call)]
    if call.version >= _FIRST_VERSION_WITH_MANY_KEYS:
        return FindCoordinatorResponse(coordinators=lines)
    (only,) = lines
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message or ErrorCode.NONE.name,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _line(lookup: Lookup | None, key: str, call: Call[FindCoordinatorRequest]) -> Line:
    try:
        node = _coordinator(lookup, key, call)
    except KafkaError as failure:
        return _shown(key, _NOBODY, failure)
    return _shown(key, node)


def _coordinator(lookup: Lookup | None, key: str, call: Call[FindCoordinatorRequest]) -> Node:
    if lookup is not None:
        return lookup.coordinator(key, listener=call.peer.listener)
    if call.request.key_type == SHARE and call.version >= _FIRST_VERSION_OF_SHARE_GROUPS:
        raise CoordinatorNotAvailable("there are no share groups here")
    raise InvalidRequest(f"there are no coordinators of type {call.request.key_type}")


def _shown(key: str, node: Node, failure: KafkaError | None = None) -> Line:
    return Line(
        key=key,
        node_id=node.id,
        host=node.host,
        port=node.port,
        error_code=code_of(failure),
        error_message="" if failure is None else words(failure) or failure.error.message,
    )


def refused(call: Call[FindCoordinatorRequest], failure: KafkaError) -> FindCoordinatorResponse:
    """All of it, for one reason."""
    lines = [_shown(key, _NOBODY, failure) for key in _keys(call)]
    if call.version >= _FIRST_VERSION_WITH_MANY_KEYS:
        return FindCoordinatorResponse(coordinators=lines)
    return FindCoordinatorResponse(error_code=code_of(failure), node_id=-1, port=-1)
