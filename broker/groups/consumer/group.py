"""One consumer group: its epochs, its members, and its target assignment.

The group changes only by the records of the log.  ``apply`` takes them in any order that a
compacted log may have; GroupUpdate.put_target_assignment has the same effect.  A loaded group
therefore equals the group before the failover.  All decisions are made elsewhere, on a copy: see
group_update.py.

Invariant: ``partition_owners`` contains every partition that a member holds, with its member id.

Kafka: ConsumerGroup.

Owner: the event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from enum import Enum
from typing import Any

from odradek.broker.groups.consumer.member import (
    LEAVE_GROUP_MEMBER_EPOCH,
    ConsumerGroupMember,
    CurrentAssignment,
    Subscription,
)
from odradek.broker.groups.consumer.partitions import (
    NO_PARTITIONS,
    Partitions,
    TopicIdPartition,
    partitions_from_topics,
)
from odradek.broker.groups.consumer.records import (
    CoordinatorRecord,
    ResolvedRegularExpression,
    read_current_assignment,
    read_member_metadata,
)
from odradek.broker.groups.consumer.topics import TopicsSnapshot
from odradek.protocol.internal import consumer_group_log as log


class ConsumerGroupState(Enum):
    """The value is the state name in responses."""

    EMPTY = "Empty"
    #: The epoch has no target assignment yet.
    ASSIGNING = "Assigning"
    #: Some members do not have their target assignment yet.
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """A new group has no members and epoch 0."""

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, ConsumerGroupMember] = {}
        self.target_assignment: dict[str, Partitions] = {}
        self.resolved_regexes: dict[str, ResolvedRegularExpression] = {}
        #: Whether the log still has the record of topics that Kafka wrote before 4.1.
        self.has_partition_metadata = False
        # The following attributes are derived from those above.
        self.partition_owners: dict[TopicIdPartition, str] = {}
        self.static_members: dict[str, str] = {}
        self.subscriptions: Counter[Subscription] = Counter()
        self._cached_subscribed_topics: frozenset[str] | None = None
        #: The topics at the last check of the group epoch; not stored.
        self.last_seen_topics: TopicsSnapshot | None = None

    def copy(self) -> ConsumerGroup:
        """Return a copy that shares the immutable members and sets."""
        clone = copy(self)
        for name in (
            "members",
            "target_assignment",
            "resolved_regexes",
            "partition_owners",
            "static_members",
        ):
            setattr(clone, name, getattr(self, name).copy())
        clone.subscriptions = self.subscriptions.copy()
        return clone

    # Queries

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(
            member.current_assignment.is_reconciled_to(self.assignment_epoch)
            for member in self.members.values()
        ):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str) -> ConsumerGroupMember | None:
        return self.members.get(self.static_members.get(instance_id, ""))

    def target_assignment_of(self, member_id: str) -> Partitions:
        return self.target_assignment.get(member_id, NO_PARTITIONS)

    def is_free_for(self, member_id: str) -> Callable[[TopicIdPartition], bool]:
        """Return a predicate: whether no other member owns the partition."""
        owners = self.partition_owners
        return lambda partition: owners.get(partition, member_id) == member_id

    def topics_of(self, subscription: Subscription) -> frozenset[str]:
        """Return the topic names of a subscription; some may not exist."""
        resolved = self.resolved_regexes.get(subscription.topic_regex)
        return (
            subscription.topic_names
            if resolved is None
            else subscription.topic_names | resolved.topics
        )

    def subscribed_topics(self) -> frozenset[str]:
        if self._cached_subscribed_topics is None:
            self._cached_subscribed_topics = frozenset().union(
                *map(self.topics_of, self.subscriptions)
            )
        return self._cached_subscribed_topics

    def subscribed_regexes(self) -> set[str]:
        return {
            subscription.topic_regex
            for subscription in self.subscriptions
            if subscription.topic_regex
        }

    # Updates

    def apply(self, record: CoordinatorRecord) -> None:
        _RECORD_APPLIERS[type(record.key)](self, record.key, record.value)

    def _apply_group_epoch(
        self, _: log.ConsumerGroupMetadataKey, value: log.ConsumerGroupMetadataValue | None
    ) -> None:
        self.epoch = 0 if value is None else value.epoch
        self.metadata_hash = 0 if value is None else value.metadata_hash

    def _apply_partition_metadata(
        self,
        _: log.ConsumerGroupPartitionMetadataKey,
        value: log.ConsumerGroupPartitionMetadataValue | None,
    ) -> None:
        self.has_partition_metadata = value is not None

    def _apply_member_metadata(
        self,
        key: log.ConsumerGroupMemberMetadataKey,
        value: log.ConsumerGroupMemberMetadataValue | None,
    ) -> None:
        before = self.members.get(key.member_id)
        if value is None:
            self._replace_member(before, None)
        else:
            metadata = read_member_metadata(value)
            self._replace_member(
                before, replace(before or ConsumerGroupMember(key.member_id), metadata=metadata)
            )

    def _apply_current_assignment(
        self,
        key: log.ConsumerGroupCurrentMemberAssignmentKey,
        value: log.ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        before = self.members.get(key.member_id)
        if value is not None:
            current = read_current_assignment(value)
            self._replace_member(
                before,
                replace(before or ConsumerGroupMember(key.member_id), current_assignment=current),
            )
        elif before is not None:
            left = CurrentAssignment(
                epoch=LEAVE_GROUP_MEMBER_EPOCH, previous_epoch=LEAVE_GROUP_MEMBER_EPOCH
            )
            self._replace_member(before, replace(before, current_assignment=left))

    def _apply_target_assignment_epoch(
        self,
        _: log.ConsumerGroupTargetAssignmentMetadataKey,
        value: log.ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        self.assignment_epoch = 0 if value is None else value.assignment_epoch

    def _apply_target_assignment(
        self,
        key: log.ConsumerGroupTargetAssignmentMemberKey,
        value: log.ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            self.target_assignment.pop(key.member_id, None)
        else:
            self.target_assignment[key.member_id] = partitions_from_topics(value.topic_partitions)

    def _apply_regular_expression(
        self,
        key: log.ConsumerGroupRegularExpressionKey,
        value: log.ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        self._cached_subscribed_topics = None
        if value is None:
            self.resolved_regexes.pop(key.regular_expression, None)
        else:
            resolved = ResolvedRegularExpression(frozenset(value.topics), value.timestamp)
            self.resolved_regexes[key.regular_expression] = resolved

    def _replace_member(
        self, before: ConsumerGroupMember | None, after: ConsumerGroupMember | None
    ) -> None:
        """Replace ``before`` by ``after``; None stands for no member."""
        owns_instance_id = before is None or self._owns_instance_id(before)
        if before is not None:
            self._remove_member(before)
        if after is not None:
            self.members[after.id] = after
            self.subscriptions[after.subscription] += 1
            if self.subscriptions[after.subscription] == 1:
                self._cached_subscribed_topics = None
            self.partition_owners.update(dict.fromkeys(after.current_assignment.held, after.id))
            if after.instance_id is not None and owns_instance_id:
                self.static_members[after.instance_id] = after.id

    def _remove_member(self, member: ConsumerGroupMember) -> None:
        """Remove the member, but not what another member owns by now.

        In a compacted log the record of the new owner may precede the tombstone of the old one.
        """
        if member.instance_id is not None and self._owns_instance_id(member):
            self.static_members.pop(member.instance_id, None)
        del self.members[member.id]
        self.subscriptions[member.subscription] -= 1
        if not self.subscriptions[member.subscription]:
            del self.subscriptions[member.subscription]
            self._cached_subscribed_topics = None
        for partition in member.current_assignment.held:
            if self.partition_owners.get(partition) == member.id:
                del self.partition_owners[partition]

    def _owns_instance_id(self, member: ConsumerGroupMember) -> bool:
        return (
            member.instance_id is None
            or self.static_members.get(member.instance_id, member.id) == member.id
        )


#: The class of the key -> the method that applies the record
_RECORD_APPLIERS: Mapping[type, Callable[[ConsumerGroup, Any, Any], None]] = {
    log.ConsumerGroupMetadataKey: ConsumerGroup._apply_group_epoch,
    log.ConsumerGroupPartitionMetadataKey: ConsumerGroup._apply_partition_metadata,
    log.ConsumerGroupMemberMetadataKey: ConsumerGroup._apply_member_metadata,
    log.ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroup._apply_target_assignment_epoch,
    log.ConsumerGroupTargetAssignmentMemberKey: ConsumerGroup._apply_target_assignment,
    log.ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroup._apply_current_assignment,
    log.ConsumerGroupRegularExpressionKey: ConsumerGroup._apply_regular_expression,
}
