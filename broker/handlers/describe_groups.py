"""DescribeGroups: the state and the members of classic groups.

A group that does not exist is shown in the state Dead; from version 6 on it also has the error
GROUP_ID_NOT_FOUND.  A large response is built in time slices that end between groups, so each group
is shown as it is at one moment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.state import ClassicGroupState
from odradek.broker.groups.coordinator import GroupCoordinator
from odradek.broker.groups.offset_commits import check_group_exists
from odradek.broker.handlers.error_messages import error_message
from odradek.broker.metadata import authorized_operations
from odradek.broker.request import Request
from odradek.broker.time_slice import INLINE_ENTRIES_MAX, TimeSlice
from odradek.protocol.api.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from odradek.protocol.errors import GroupIdNotFound, KafkaError, code_of

#: This version also adds the error message.
_FIRST_VERSION_WITH_NOT_FOUND = 6

DescribedGroup = DescribeGroupsResponse.Group


def handle(
    groups: GroupCoordinator, request: Request[DescribeGroupsRequest]
) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse]:
    group_ids = request.body.groups
    described = (_describe_group(groups, group_id, request) for group_id in group_ids)
    if sum(_entry_count(groups, group_id) for group_id in group_ids) > INLINE_ENTRIES_MAX:
        return _respond_sliced(described)
    return DescribeGroupsResponse(groups=[*described])


async def _respond_sliced(described_groups: Iterable[DescribedGroup]) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=await TimeSlice().collect(described_groups))


def _entry_count(groups: GroupCoordinator, group_id: str) -> int:
    """Estimate the cost of describing a group."""
    shard = groups.find_shard(group_id)
    group = None if shard is None else shard.groups.get(group_id)
    return 1 + len(group.metadata.members) if isinstance(group, ClassicGroup) else 1


def _describe_group(
    groups: GroupCoordinator, group_id: str, request: Request[DescribeGroupsRequest]
) -> DescribedGroup:
    try:
        group = check_group_exists(groups.shard(group_id), group_id)
        if group is not None and not isinstance(group, ClassicGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a classic group.")
    except GroupIdNotFound as error:
        if request.version >= _FIRST_VERSION_WITH_NOT_FOUND:
            return _group_without_members(
                group_id, ClassicGroupState.DEAD.value, error, version=request.version
            )
        described = _group_without_members(group_id, ClassicGroupState.DEAD.value)
    except KafkaError as error:
        return _group_without_members(group_id, "", error, version=request.version)
    else:
        described = (
            _described_group(group)
            if group
            else _group_without_members(group_id, ClassicGroupState.EMPTY.value)
        )
    if request.body.include_authorized_operations:
        described.authorized_operations = authorized_operations.GROUP_OPERATIONS
    return described


def _described_group(group: ClassicGroup) -> DescribedGroup:
    """Describe a group; only a stable one shows its protocol, member metadata and assignments."""
    metadata = group.metadata
    protocol = metadata.protocol if metadata.state is ClassicGroupState.STABLE else None
    return DescribedGroup(
        error_code=0,
        group_id=group.id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=protocol or "",
        members=[
            DescribedGroup.Member(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client.id,
                client_host=member.client.host,
                member_metadata=b"" if protocol is None else member.metadata(protocol),
                member_assignment=b"" if protocol is None else member.assignment,
            )
            for member in metadata.members.values()
        ],
    )


def _group_without_members(
    group_id: str, state: str, error: KafkaError | None = None, *, version: int = 0
) -> DescribedGroup:
    return DescribedGroup(
        error_code=code_of(error),
        error_message=error_message(error) if version >= _FIRST_VERSION_WITH_NOT_FOUND else None,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def error_response(
    request: Request[DescribeGroupsRequest], error: KafkaError
) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[
            _group_without_members(group_id, "", error, version=request.version)
            for group_id in request.body.groups
        ]
    )
