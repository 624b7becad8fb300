"""ListGroups: the groups that this broker coordinates, all of them or those in some states.

Offsets that are kept under an id make a group of it too: an empty one, that never had members.
While some groups are being loaded those that are there are listed, with an error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import NamedTuple

from odradek.broker.call import Call
from odradek.broker.groups.classic.state import GroupState
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.group import GroupType
from odradek.broker.groups.shard import GroupShard
from odradek.broker.turns import FEW, Turn
from odradek.protocol.api.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.error_codes import ErrorCode

Shown = ListGroupsResponse.Group

_LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.code


class Wanted(NamedTuple):
    """In lower case; empty for any."""

    states: frozenset[str]
    types: frozenset[str]

    def has(self, shown: Shown) -> bool:
        is_in_state = not self.states or shown.group_state.lower() in self.states
        return is_in_state and (not self.types or shown.group_type in self.types)


def handle(
    groups: GroupCoordinator, call: Call[ListGroupsRequest]
) -> ListGroupsResponse | Awaitable[ListGroupsResponse]:
    request = call.request
    wanted = Wanted(
        frozenset(map(str.lower, request.states_filter)),
        frozenset(map(str.lower, request.types_filter)),
    )
    response = ListGroupsResponse(
        error_code=_LOADING if groups.shards.is_loading else ErrorCode.NONE.code, groups=[]
    )
    if sum(len(shard.groups) + len(shard.offsets) for shard in groups) > FEW:
        return _answer_in_turns(groups, wanted, response)
    response.groups = list(_wanted(groups, wanted))
    return response


async def _answer_in_turns(
    groups: GroupCoordinator, wanted: Wanted, response: ListGroupsResponse
) -> ListGroupsResponse:
    response.groups = await Turn().listed(_wanted(groups, wanted))
    return response


def _wanted(groups: GroupCoordinator, wanted: Wanted) -> Iterator[Shown]:
    for shard in groups:
        for shown in _listed(shard):
            if wanted.has(shown):
                yield shown


def _listed(shard: GroupShard) -> Iterator[Shown]:
    """What comes or goes meanwhile may be missed, or shown."""
    for group in [*shard.groups.values()]:
        yield Shown(
            group_id=group.id,
            protocol_type=group.protocol_type,
            group_state=group.state_name,
            group_type=group.type.value,
        )
    for group_id in [*shard.offsets]:
        if group_id not in shard.groups:
            yield Shown(
                group_id=group_id,
                protocol_type="",
                group_state=GroupState.EMPTY.value,
                group_type=GroupType.CLASSIC.value,
            )
