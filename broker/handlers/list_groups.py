"""ListGroups: the groups that this broker coordinates, all of them or those in some states.

Offsets that are kept under an id make a group of it too: an empty one, that never had members.
While some groups are being loaded those that are there are listed, with an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from odradek.broker.call import Call
from odradek.broker.groups.classic.state import GroupState
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.group import GroupType
from odradek.broker.groups.shard import GroupShard
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


def handle(groups: GroupCoordinator, call: Call[ListGroupsRequest]) -> ListGroupsResponse:
    request = call.request
    wanted = Wanted(
        frozenset(map(str.lower, request.states_filter)),
        frozenset(map(str.lower, request.types_filter)),
    )
    return ListGroupsResponse(
        error_code=_LOADING if groups.shards.is_loading else ErrorCode.NONE.code,
        groups=[shown for shard in groups for shown in _listed(shard) if wanted.has(shown)],
    )


def _listed(shard: GroupShard) -> Iterator[Shown]:
    for group in shard.groups.values():
        yield Shown(
            group_id=group.id,
            protocol_type=group.protocol_type,
            group_state=group.state_name,
            group_type=group.type.value,
        )
    for group_id in shard.offsets:
        if group_id not in shard.groups:
            yield Shown(
                group_id=group_id,
                protocol_type="",
                group_state=GroupState.EMPTY.value,
                group_type=GroupType.CLASSIC.value,
            )
