"""Members that go: by their own word, for good or for a while, or because they were not heard.

A member that goes for good takes the group into a new epoch.  What it held is free at once.  One
that goes for a while, a static one, keeps what it has until its session ends.

Owner: none; pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from odradek.broker.groups.consumer import target
from odradek.broker.groups.consumer.draft import Draft, Surroundings
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.heartbeat import Decision, Heartbeat, Told, check_instance
from odradek.broker.groups.consumer.member import LEAVING_FOR_A_WHILE, Member, MemberState
from odradek.broker.groups.consumer.partitions import NOTHING
from odradek.protocol.errors import UnknownMemberId


def decide_leave(group: ConsumerGroup, heartbeat: Heartbeat, around: Surroundings) -> Decision:
    member = leaving_member(group, heartbeat.member_id, heartbeat.instance_id)
    told = Told(member.id, heartbeat.epoch)
    if heartbeat.epoch == LEAVING_FOR_A_WHILE:
        return Decision(_gone_for_a_while(group, member), told)
    return Decision(decide_removal(group, [member.id], around), told)


def leaving_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    if instance_id is not None:
        return check_instance(group.static_member(instance_id), member_id, instance_id)
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMemberId(f"{member_id} is not in the group {group.id}.")
    return member


def decide_removal(group: ConsumerGroup, members: Iterable[str], around: Surroundings) -> Draft:
    """Of members that are in the group."""
    draft = Draft(group)
    for member in members:
        draft.remove_member(member)
    target.raise_epoch(draft, around, has_changed=True)
    return draft


def _gone_for_a_while(group: ConsumerGroup, member: Member) -> Draft:
    draft = Draft(group)
    away = replace(
        member.current, epoch=LEAVING_FOR_A_WHILE, state=MemberState.STABLE, to_revoke=NOTHING
    )
    draft.put_current(member.id, away)
    return draft
