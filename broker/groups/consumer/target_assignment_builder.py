"""Bumps the group epoch, and computes the target assignment of an epoch.

The epoch is bumped when the subscriptions change, or when the subscribed topics change, which their
metadata hash shows.  Then the assignor that most members request computes the new target assignment
from the previous one.  Records are written only for members whose target assignment changes.

Kafka: TargetAssignmentBuilder.

Owner: none; pure functions on a GroupUpdate.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.groups.consumer import records
from odradek.broker.groups.consumer.assignor import Subscriber
from odradek.broker.groups.consumer.assignors import ASSIGNORS, Assignors
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.group_update import DecisionContext, GroupUpdate
from odradek.broker.groups.consumer.member import Subscription
from odradek.broker.groups.consumer.partitions import Partitions, TopicIdPartition
from odradek.broker.groups.consumer.records import ResolvedRegularExpression
from odradek.broker.groups.consumer.topics import TopicsSnapshot
from odradek.protocol.errors import InvalidRegularExpression
from odradek.protocol.types import Uuid


def resolve_regexes(update: GroupUpdate, context: DecisionContext) -> bool:
    """Update the topics that match the group's regexes; return whether any have changed.

    Only heartbeats call this: they can match many topic names in time slices before.  A member
    removal or a classic member's join must not wait, and uses the topics that were resolved last.
    """
    group, has_changed = update.group, False
    for regex in sorted(group.subscribed_regexes()):
        previous, matching = (
            group.resolved_regexes.get(regex),
            _matching_topics(context.topics, regex),
        )
        if matching is not None and (previous is None or previous.topics != matching):
            resolved = ResolvedRegularExpression(matching, context.now_ms)
            update.write([records.new_regular_expression_record(group.id, regex, resolved)])
            has_changed = True
    return has_changed


def maybe_bump_group_epoch(
    update: GroupUpdate, context: DecisionContext, *, has_changed: bool
) -> None:
    """Bump the epoch if ``has_changed``, if the subscribed topics changed, or if the epoch is 0."""
    _remove_unused_regexes(update)
    group = update.group
    metadata_hash = context.topics.compute_metadata_hash(group.subscribed_topics())
    if has_changed or metadata_hash != group.metadata_hash or not group.epoch:
        if group.has_partition_metadata:
            update.write([records.new_partition_metadata_tombstone(group.id)])
        update.put_group_epoch(group.epoch + 1, metadata_hash)


def update_target_assignment(update: GroupUpdate, context: DecisionContext) -> None:
    """Compute the target assignment if the epoch has none yet."""
    group = update.group
    if group.assignment_epoch >= group.epoch:
        return
    target = ASSIGNORS[preferred_assignor(group, context.assignors)](
        _subscribers(group, context.topics),
        context.topics.partition_counts(group.subscribed_topics()),
    )
    for member_id in sorted(target):
        if group.target_assignment.get(member_id) != target[member_id]:
            update.put_target_assignment(member_id, target[member_id])
    update.write([records.new_target_assignment_epoch_record(group.id, group.epoch)])


def preferred_assignor(group: ConsumerGroup, assignors: Assignors) -> str:
    return assignors.preferred(member.metadata.assignor for member in group.members.values())


def _matching_topics(topics: TopicsSnapshot, regex: str) -> frozenset[str] | None:
    """Return the topics; None for a regex that another broker accepted and this one rejects."""
    try:
        return topics.matching_topics(regex)
    except InvalidRegularExpression:
        return None


def _remove_unused_regexes(update: GroupUpdate) -> None:
    group = update.group
    unused = sorted(group.resolved_regexes.keys() - group.subscribed_regexes())
    update.write(records.new_regular_expression_record(group.id, regex, None) for regex in unused)


def _subscribers(group: ConsumerGroup, topics: TopicsSnapshot) -> dict[str, Subscriber]:
    topic_ids: Mapping[Subscription, frozenset[Uuid]] = {
        subscription: frozenset(topics.partition_counts(group.topics_of(subscription)))
        for subscription in group.subscriptions
    }
    taken: set[TopicIdPartition] = set()
    return {
        member_id: Subscriber(
            subscribed_topic_ids=topic_ids[member.subscription],
            assigned_partitions=_exclude_taken(group.target_assignment_of(member_id), taken),
            instance_id=member.instance_id,
        )
        for member_id, member in group.members.items()
    }


def _exclude_taken(partitions: Partitions, taken: set[TopicIdPartition]) -> Partitions:
    """Remove partitions that another member has: a classic leader may have assigned them twice."""
    available = partitions if taken.isdisjoint(partitions) else partitions - taken
    taken |= available
    return available
