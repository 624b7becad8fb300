"""ConsumerGroupHeartbeat: what a member says, and what it is told.

    decide_heartbeat(group, heartbeat, surroundings)  ->  draft and answer; may refuse

A heartbeat has four steps: the member becomes known, or its word is compared with what is known of
it; the epoch is raised if it says something new, or the topics have changed; a new epoch gets its
target; the member is led one step towards its own.

Owner: none; pure functions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from odradek.broker.groups.consumer import target
from odradek.broker.groups.consumer.draft import Draft, Surroundings
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.member import (
    JOINING,
    LEAVING_FOR_A_WHILE,
    CurrentAssignment,
    Member,
    MemberMetadata,
    Subscription,
)
from odradek.broker.groups.consumer.partitions import Partitions
from odradek.broker.groups.consumer.reconcile import Target, reconcile
from odradek.protocol.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    UnknownMemberId,
    UnreleasedInstanceId,
)

Said = TypeVar("Said")


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a member says; None is what it does not say, since it has not changed."""

    member_id: str
    epoch: int
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    names: frozenset[str] | None = None
    expression: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None

    @property
    def is_full(self) -> bool:
        """Whether everything is said, as by a member that wants to be told everything."""
        has_subscription = self.names is not None or self.expression is not None
        has_rest = self.rebalance_timeout_ms is not None and self.owned is not None
        return self.epoch == JOINING or (has_subscription and has_rest)


@dataclass(frozen=True, slots=True)
class Told:
    """The answer; ``assigned`` is None where the member knows it already."""

    member_id: str
    epoch: int
    assigned: Partitions | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """To be written and answered, in this order."""

    draft: Draft
    told: Told


def decide_heartbeat(group: ConsumerGroup, heartbeat: Heartbeat, around: Surroundings) -> Decision:
    check_room(group, heartbeat.member_id, around)
    draft = Draft(group)
    member = _known_member(draft, heartbeat)
    has_changed = note(draft, member, _told_metadata(member.metadata, heartbeat), around)
    if has_changed or group.seen is not around.topics:
        has_changed |= target.resolve_expressions(draft, around)
        target.raise_epoch(draft, around, has_changed=has_changed)
    target.assign(draft, around)
    after = lead(draft, member.id, heartbeat.owned)
    is_news = heartbeat.is_full or after.assigned != member.current.assigned
    told = Told(member.id, after.epoch, after.assigned if is_news else None)
    return Decision(draft, told)


def check_room(group: ConsumerGroup, member_id: str, around: Surroundings) -> None:
    if len(group.members) >= around.members_max and member_id not in group.members:
        raise GroupMaxSizeReached(f"The group has {around.members_max} members, as many as it may.")


def note(draft: Draft, member: Member, told: MemberMetadata, around: Surroundings) -> bool:
    """Whether the subscription is another one.  Raises InvalidRegularExpression."""
    is_new = member.id not in draft.group.members
    if told.subscription.expression != member.subscription.expression:
        check_expression(draft.group, told.subscription.expression, around)
    if is_new or told != member.metadata:
        draft.put_metadata(member.id, told)
    return told.subscription != member.subscription


def check_expression(group: ConsumerGroup, expression: str, around: Surroundings) -> None:
    if expression and expression not in group.expressions:
        around.topics.matching(expression)


def lead(draft: Draft, member_id: str, owned: Partitions | None) -> CurrentAssignment:
    """One step towards the member's target."""
    group = draft.group
    before = group.members[member_id].current
    if before.is_reconciled_to(group.assignment_epoch):
        return before
    after = reconcile(
        before,
        Target(group.assignment_epoch, group.target_of(member_id)),
        is_free=group.is_free_for(member_id),
        owned=owned,
    )
    if after != before:
        draft.put_current(member_id, after)
    return after


# Who it is


def _known_member(draft: Draft, heartbeat: Heartbeat) -> Member:
    """A member that joins is not in the group yet."""
    if heartbeat.instance_id is not None:
        return _known_static_member(draft, heartbeat, heartbeat.instance_id)
    member = draft.group.members.get(heartbeat.member_id)
    if member is None and heartbeat.epoch == JOINING:
        return Member(heartbeat.member_id)
    if member is None:
        raise UnknownMemberId(f"{heartbeat.member_id} is not in the group {draft.group.id}.")
    _check_epoch(member, heartbeat)
    return member


def _known_static_member(draft: Draft, heartbeat: Heartbeat, instance_id: str) -> Member:
    known = draft.group.static_member(instance_id)
    if heartbeat.epoch != JOINING:
        member = check_instance(known, heartbeat.member_id, instance_id)
        _check_epoch(member, heartbeat)
        return member
    if known is None:
        return draft.group.members.get(heartbeat.member_id) or Member(heartbeat.member_id)
    if known.epoch != LEAVING_FOR_A_WHILE and not known.is_classic:
        raise UnreleasedInstanceId(f"{instance_id} is {known.id}, which has not left.")
    return take_over(draft, known, heartbeat.member_id)


def take_over(draft: Draft, gone: Member, member_id: str) -> Member:
    """The same static member under another id, with all that it had."""
    has = replace(gone.current, epoch=JOINING, previous_epoch=JOINING)
    successor = Member(member_id, gone.metadata, has)
    draft.replace_member(gone, successor)
    return successor


def check_instance(known: Member | None, member_id: str, instance_id: str) -> Member:
    if known is None:
        raise UnknownMemberId(f"No member has the instance id {instance_id}.")
    if known.id != member_id:
        raise FencedInstanceId(f"{instance_id} is {known.id} now, no longer {member_id}.")
    return known


def _check_epoch(member: Member, heartbeat: Heartbeat) -> None:
    """The epoch before is good too if nothing else is lost: its answer may not have arrived."""
    if heartbeat.epoch == member.epoch:
        return
    owned = heartbeat.owned
    has_missed_an_answer = (
        heartbeat.epoch < member.epoch
        and heartbeat.epoch == member.current.previous_epoch
        and owned is not None
        and owned <= member.current.assigned
    )
    if not has_missed_an_answer:
        raise FencedMemberEpoch(
            f"The member is in epoch {member.epoch}, not {heartbeat.epoch}: "
            "it must give up all its partitions and join anew."
        )


def _told_metadata(known: MemberMetadata, heartbeat: Heartbeat) -> MemberMetadata:
    subscription = Subscription(
        _said_or_known(heartbeat.names, known.subscription.names),
        _said_or_known(heartbeat.expression, known.subscription.expression),
    )
    return MemberMetadata(
        instance_id=_said_or_known(heartbeat.instance_id, known.instance_id),
        rack_id=_said_or_known(heartbeat.rack_id, known.rack_id),
        client_id=heartbeat.client_id,
        client_host=heartbeat.client_host,
        subscription=subscription,
        rebalance_timeout_ms=_said_or_known(
            heartbeat.rebalance_timeout_ms, known.rebalance_timeout_ms
        ),
        assignor=_said_or_known(heartbeat.assignor, known.assignor),
        classic=None,
    )


def _said_or_known(said: Said | None, known: Said) -> Said:
    return known if said is None else said
