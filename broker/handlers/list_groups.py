"""ListGroups: list the groups that this broker coordinates, filtered by state and type.

Committed offsets without a group are listed as an empty classic group.  While some groups are being
loaded, the response lists the groups that are loaded and has the error
COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import NamedTuple

from odradek.broker.groups.classic.state import ClassicGroupState
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.group import GroupType
from odradek.broker.groups.shard import GroupCoordinatorShard
from odradek.broker.request import Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.protocol.api.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.error_codes import ErrorCode

ListedGroup = ListGroupsResponse.Group

_LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.code


class GroupFilter(NamedTuple):
    """The filters of a request, in lower case; an empty set matches every group."""

    states: frozenset[str]
    types: frozenset[str]

    def matches(self, group: ListedGroup) -> bool:
        is_in_state = not self.states or group.group_state.lower() in self.states
        return is_in_state and (not self.types or group.group_type in self.types)


def handle(
    groups: GroupCoordinator, request: Request[ListGroupsRequest]
) -> ListGroupsResponse | Awaitable[ListGroupsResponse]:
    body = request.body
    group_filter = GroupFilter(
        frozenset(map(str.lower, body.states_filter)),
        frozenset(map(str.lower, body.types_filter)),
    )
    response = ListGroupsResponse(
        error_code=_LOADING if groups.runtime.is_loading else ErrorCode.NONE.code, groups=[]
    )
    if sum(len(shard.groups) + len(shard.offsets) for shard in groups) > INLINE_ENTRIES_MAX:
        return _respond_sliced(groups, group_filter, response)
    response.groups = list(_matching_groups(groups, group_filter))
    return response


async def _respond_sliced(
    groups: GroupCoordinator, group_filter: GroupFilter, response: ListGroupsResponse
) -> ListGroupsResponse:
    response.groups = await TimeSlice().collect(_matching_groups(groups, group_filter))
    return response


def _matching_groups(groups: GroupCoordinator, group_filter: GroupFilter) -> Iterator[ListedGroup]:
    for shard in groups:
        for group in _list_groups(shard):
            if group_filter.matches(group):
                yield group


def _list_groups(shard: GroupCoordinatorShard) -> Iterator[ListedGroup]:
    """Yield all groups; groups that are added or removed meanwhile may be missing or included."""
    for group in [*shard.groups.values()]:
        yield ListedGroup(
            group_id=group.id,
            protocol_type=group.protocol_type,
            group_state=group.state_name,
            group_type=group.type.value,
        )
    for group_id in [*shard.offsets]:
        if group_id not in shard.groups:
            yield ListedGroup(
                group_id=group_id,
                protocol_type="",
                group_state=ClassicGroupState.EMPTY.value,
                group_type=GroupType.CLASSIC.value,
            )
