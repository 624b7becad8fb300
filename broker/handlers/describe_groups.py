"""DescribeGroups: the state and the members of classic groups.

A group that is not there is shown as dead, and from version 6 on as not found.  Where there are
many members, others have their turns between two groups: each is shown as it is at one moment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from odradek.broker.call import Call
from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.state import GroupState
from odradek.broker.groups.committing import check_exists
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.handlers.refusals import words
from odradek.broker.metadata import authorized_operations
from odradek.broker.turns import FEW, Turn
from odradek.protocol.api.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from odradek.protocol.errors import GroupIdNotFound, KafkaError, code_of

#: Which also has words for it.
_FIRST_VERSION_OF_NOT_FOUND = 6

Shown = DescribeGroupsResponse.Group


def handle(
    groups: GroupCoordinator, call: Call[DescribeGroupsRequest]
) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse]:
    asked = call.request.groups
    described = (_described(groups, group_id, call) for group_id in asked)
    if sum(_size(groups, group_id) for group_id in asked) > FEW:
        return _answer_in_turns(described)
    return DescribeGroupsResponse(groups=[*described])


async def _answer_in_turns(described: Iterable[Shown]) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=await Turn().listed(described))


def _size(groups: GroupCoordinator, group_id: str) -> int:
    """How much there is to show."""
    shard = groups.find_shard(group_id)
    group = None if shard is None else shard.groups.get(group_id)
    return 1 + len(group.roster.members) if isinstance(group, ClassicGroup) else 1


def _described(groups: GroupCoordinator, group_id: str, call: Call[DescribeGroupsRequest]) -> Shown:
    try:
        group = check_exists(groups.shard(group_id), group_id)
        if group is not None and not isinstance(group, ClassicGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a classic group.")
    except GroupIdNotFound as failure:
        if call.version >= _FIRST_VERSION_OF_NOT_FOUND:
            return _nobody(group_id, GroupState.DEAD.value, failure, version=call.version)
        shown = _nobody(group_id, GroupState.DEAD.value)
    except KafkaError as failure:
        return _nobody(group_id, "", failure, version=call.version)
    else:
        shown = _shown(group) if group else _nobody(group_id, GroupState.EMPTY.value)
    if call.request.include_authorized_operations:
        shown.authorized_operations = authorized_operations.ON_A_GROUP
    return shown


def _shown(group: ClassicGroup) -> Shown:
    """What members told one another is shown only once it is settled."""
    roster = group.roster
    protocol = roster.protocol if roster.state is GroupState.STABLE else None
    return Shown(
        error_code=0,
        group_id=group.id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=protocol or "",
        members=[
            Shown.Member(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client.id,
                client_host=member.client.host,
                member_metadata=b"" if protocol is None else member.metadata(protocol),
                member_assignment=b"" if protocol is None else member.assignment,
            )
            for member in roster.members.values()
        ],
    )


def _nobody(
    group_id: str, state: str, failure: KafkaError | None = None, *, version: int = 0
) -> Shown:
    return Shown(
        error_code=code_of(failure),
        error_message=words(failure) if version >= _FIRST_VERSION_OF_NOT_FOUND else None,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def refused(call: Call[DescribeGroupsRequest], failure: KafkaError) -> DescribeGroupsResponse:
    """All of it, for one reason."""
    return DescribeGroupsResponse(
        groups=[
            _nobody(group_id, "", failure, version=call.version) for group_id in call.request.groups
        ]
    )
