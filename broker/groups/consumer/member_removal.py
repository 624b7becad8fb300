"""Members that leave, for good or temporarily, and members that are removed.

A member that leaves for good bumps the group epoch, and its partitions are free at once.  A static
member that leaves temporarily keeps its partitions until its session expires.

Owner: none; pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from odradek.broker.groups.consumer import target_assignment_builder
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.group_update import DecisionContext, GroupUpdate
from odradek.broker.groups.consumer.heartbeat import (
    CoordinatorResult,
    Heartbeat,
    HeartbeatResult,
    check_instance_id,
)
from odradek.broker.groups.consumer.member import (
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerGroupMember,
    MemberState,
)
from odradek.broker.groups.consumer.partitions import NO_PARTITIONS
from odradek.protocol.errors import UnknownMemberId


def decide_leave(
    group: ConsumerGroup, heartbeat: Heartbeat, context: DecisionContext
) -> CoordinatorResult:
    member = find_member(group, heartbeat.member_id, heartbeat.instance_id)
    result = HeartbeatResult(member.id, heartbeat.member_epoch)
    if heartbeat.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        return CoordinatorResult(_leave_temporarily(group, member), result)
    return CoordinatorResult(decide_removal(group, [member.id], context), result)


def find_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerGroupMember:
    if instance_id is not None:
        return check_instance_id(group.static_member(instance_id), member_id, instance_id)
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMemberId(f"{member_id} is not in the group {group.id}.")
    return member


def decide_removal(
    group: ConsumerGroup, member_ids: Iterable[str], context: DecisionContext
) -> GroupUpdate:
    """Remove members that are in the group."""
    update = GroupUpdate(group)
    for member_id in member_ids:
        update.remove_member(member_id)
    target_assignment_builder.maybe_bump_group_epoch(update, context, has_changed=True)
    return update


def _leave_temporarily(group: ConsumerGroup, member: ConsumerGroupMember) -> GroupUpdate:
    update = GroupUpdate(group)
    current = replace(
        member.current_assignment,
        epoch=LEAVE_GROUP_STATIC_MEMBER_EPOCH,
        state=MemberState.STABLE,
        pending_revocation=NO_PARTITIONS,
    )
    update.put_current_assignment(member.id, current)
    return update
