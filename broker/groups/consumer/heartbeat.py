"""Decides on a ConsumerGroupHeartbeat.

    decide_heartbeat(group, heartbeat, context)  ->  update and result, or KafkaError

A heartbeat has four steps:

1. Create the member, or update its metadata from the request.
2. Bump the group epoch if the subscription or the topics have changed.
3. Compute the target assignment of a new epoch.
4. Reconcile the member by one step.

Kafka: GroupMetadataManager.consumerGroupHeartbeat.

Owner: none; pure functions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from odradek.broker.groups.consumer import target_assignment_builder
from odradek.broker.groups.consumer.current_assignment_builder import TargetAssignment, reconcile
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.group_update import DecisionContext, GroupUpdate
from odradek.broker.groups.consumer.member import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerGroupMember,
    CurrentAssignment,
    MemberMetadata,
    Subscription,
)
from odradek.broker.groups.consumer.partitions import Partitions
from odradek.protocol.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    UnknownMemberId,
    UnreleasedInstanceId,
)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A parsed heartbeat; None means that a field is unchanged and was not sent."""

    member_id: str
    member_epoch: int
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    subscribed_topic_names: frozenset[str] | None = None
    subscribed_topic_regex: str | None = None
    assignor: str | None = None
    owned_partitions: Partitions | None = None

    @property
    def is_full_request(self) -> bool:
        """Whether all fields are sent, by which the member requests its full assignment."""
        has_subscription = (
            self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None
        )
        has_rest = self.rebalance_timeout_ms is not None and self.owned_partitions is not None
        return self.member_epoch == JOIN_GROUP_MEMBER_EPOCH or (has_subscription and has_rest)


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """The fields of the response; ``assigned`` is None if the member already knows it."""

    member_id: str
    member_epoch: int
    assigned: Partitions | None = None


@dataclass(frozen=True, slots=True)
class CoordinatorResult:
    """An update to write, and the result to return when it is written."""

    update: GroupUpdate
    result: HeartbeatResult


def decide_heartbeat(
    group: ConsumerGroup, heartbeat: Heartbeat, context: DecisionContext
) -> CoordinatorResult:
    check_group_not_full(group, heartbeat.member_id, context)
    update = GroupUpdate(group)
    member = _get_or_create_member(update, heartbeat)
    has_changed = update_member_metadata(
        update, member, _merge_metadata(member.metadata, heartbeat), context
    )
    if has_changed or group.last_seen_topics is not context.topics:
        has_changed |= target_assignment_builder.resolve_regexes(update, context)
        target_assignment_builder.maybe_bump_group_epoch(update, context, has_changed=has_changed)
    target_assignment_builder.update_target_assignment(update, context)
    after = maybe_reconcile(update, member.id, heartbeat.owned_partitions)
    includes_assignment = (
        heartbeat.is_full_request or after.assigned != member.current_assignment.assigned
    )
    result = HeartbeatResult(
        member.id, after.epoch, after.assigned if includes_assignment else None
    )
    return CoordinatorResult(update, result)


def check_group_not_full(group: ConsumerGroup, member_id: str, context: DecisionContext) -> None:
    if len(group.members) >= context.max_group_size and member_id not in group.members:
        raise GroupMaxSizeReached(
            f"The group already has {context.max_group_size} members, "
            "which is its maximum (group.consumer.max.size)."
        )


def update_member_metadata(
    update: GroupUpdate,
    member: ConsumerGroupMember,
    metadata: MemberMetadata,
    context: DecisionContext,
) -> bool:
    """Return whether the subscription has changed.  Raise InvalidRegularExpression."""
    is_new = member.id not in update.group.members
    if metadata.subscription.topic_regex != member.subscription.topic_regex:
        check_regex(update.group, metadata.subscription.topic_regex, context)
    if is_new or metadata != member.metadata:
        update.put_member_metadata(member.id, metadata)
    return metadata.subscription != member.subscription


def check_regex(group: ConsumerGroup, regex: str, context: DecisionContext) -> None:
    if regex and regex not in group.resolved_regexes:
        context.topics.matching_topics(regex)


def maybe_reconcile(
    update: GroupUpdate, member_id: str, owned_partitions: Partitions | None
) -> CurrentAssignment:
    """Reconcile the member by one step towards its target assignment."""
    group = update.group
    before = group.members[member_id].current_assignment
    if before.is_reconciled_to(group.assignment_epoch):
        return before
    after = reconcile(
        before,
        TargetAssignment(group.assignment_epoch, group.target_assignment_of(member_id)),
        is_free=group.is_free_for(member_id),
        owned_partitions=owned_partitions,
    )
    if after != before:
        update.put_current_assignment(member_id, after)
    return after


# Finding the member


def _get_or_create_member(update: GroupUpdate, heartbeat: Heartbeat) -> ConsumerGroupMember:
    """Return the member of the heartbeat; a joining member is not in the group yet."""
    if heartbeat.instance_id is not None:
        return _get_or_create_static_member(update, heartbeat, heartbeat.instance_id)
    member = update.group.members.get(heartbeat.member_id)
    if member is None and heartbeat.member_epoch == JOIN_GROUP_MEMBER_EPOCH:
        return ConsumerGroupMember(heartbeat.member_id)
    if member is None:
        raise UnknownMemberId(f"Member {heartbeat.member_id} is not in group {update.group.id}.")
    _check_member_epoch(member, heartbeat)
    return member


def _get_or_create_static_member(
    update: GroupUpdate, heartbeat: Heartbeat, instance_id: str
) -> ConsumerGroupMember:
    static_member = update.group.static_member(instance_id)
    if heartbeat.member_epoch != JOIN_GROUP_MEMBER_EPOCH:
        member = check_instance_id(static_member, heartbeat.member_id, instance_id)
        _check_member_epoch(member, heartbeat)
        return member
    if static_member is None:
        return update.group.members.get(heartbeat.member_id) or ConsumerGroupMember(
            heartbeat.member_id
        )
    if static_member.epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH and not static_member.is_classic:
        raise UnreleasedInstanceId(
            f"Instance id {instance_id} belongs to member {static_member.id}, which has not left."
        )
    return replace_static_member(update, static_member, heartbeat.member_id)


def replace_static_member(
    update: GroupUpdate, old_member: ConsumerGroupMember, member_id: str
) -> ConsumerGroupMember:
    """Give the static member a new member id; it keeps its metadata and its assignment."""
    current = replace(
        old_member.current_assignment,
        epoch=JOIN_GROUP_MEMBER_EPOCH,
        previous_epoch=JOIN_GROUP_MEMBER_EPOCH,
    )
    new_member = ConsumerGroupMember(member_id, old_member.metadata, current)
    update.replace_member(old_member, new_member)
    return new_member


def check_instance_id(
    static_member: ConsumerGroupMember | None, member_id: str, instance_id: str
) -> ConsumerGroupMember:
    if static_member is None:
        raise UnknownMemberId(f"Instance id {instance_id} is unknown.")
    if static_member.id != member_id:
        raise FencedInstanceId(
            f"Instance id {instance_id} belongs to member {static_member.id}, not to {member_id}."
        )
    return static_member


def _check_member_epoch(member: ConsumerGroupMember, heartbeat: Heartbeat) -> None:
    """Raise FencedMemberEpoch for a wrong epoch.

    The previous epoch is accepted if the member owns only assigned partitions: the response with
    the current epoch may have been lost.
    """
    if heartbeat.member_epoch == member.epoch:
        return
    owned = heartbeat.owned_partitions
    has_missed_response = (
        heartbeat.member_epoch < member.epoch
        and heartbeat.member_epoch == member.current_assignment.previous_epoch
        and owned is not None
        and owned <= member.current_assignment.assigned
    )
    if not has_missed_response:
        raise FencedMemberEpoch(
            f"The coordinator has member epoch {member.epoch}, the request has "
            f"{heartbeat.member_epoch}: the member must abandon all its partitions and rejoin."
        )


def _merge_metadata(current: MemberMetadata, heartbeat: Heartbeat) -> MemberMetadata:
    subscription = Subscription(
        _value_or_current(heartbeat.subscribed_topic_names, current.subscription.topic_names),
        _value_or_current(heartbeat.subscribed_topic_regex, current.subscription.topic_regex),
    )
    return MemberMetadata(
        instance_id=_value_or_current(heartbeat.instance_id, current.instance_id),
        rack_id=_value_or_current(heartbeat.rack_id, current.rack_id),
        client_id=heartbeat.client_id,
        client_host=heartbeat.client_host,
        subscription=subscription,
        rebalance_timeout_ms=_value_or_current(
            heartbeat.rebalance_timeout_ms, current.rebalance_timeout_ms
        ),
        assignor=_value_or_current(heartbeat.assignor, current.assignor),
        classic_metadata=None,
    )


def _value_or_current(value: Value | None, current: Value) -> Value:
    return current if value is None else value
