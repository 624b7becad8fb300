"""One group of the consumer protocol: its epochs, its members, and who shall have what.

It changes by the records of the log: ``apply`` takes them, in any order that a compacted log may
have, and Draft.put_target does as it would.  So what was loaded and what has lived are the same.
All that is decided about a group is decided elsewhere, on a copy: draft.py.

Invariant: ``holders`` has every partition that some member holds, and who.

Owner: the event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from enum import Enum
from typing import Any

from odradek.broker.groups.consumer.member import LEAVING, CurrentAssignment, Member, Subscription
from odradek.broker.groups.consumer.partitions import (
    NOTHING,
    Partitions,
    TopicIdPartition,
    from_topics,
)
from odradek.broker.groups.consumer.records import (
    Record,
    Resolved,
    read_current_assignment,
    read_member_metadata,
)
from odradek.broker.groups.consumer.topics import Topics
from odradek.protocol.internal import consumer_group_log as log


class GroupState(Enum):
    """The value is its name in answers."""

    EMPTY = "Empty"
    #: There is no target yet for the epoch.
    ASSIGNING = "Assigning"
    #: Some members do not have yet what they shall have.
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """A new one has nobody and is in epoch 0."""

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, Member] = {}
        self.target: dict[str, Partitions] = {}
        self.expressions: dict[str, Resolved] = {}
        #: Whether the log still has a record of the topics, as Kafka wrote them before 4.1.
        self.has_partition_metadata = False
        # What follows is derived from the above.
        self.holders: dict[TopicIdPartition, str] = {}
        self.static_members: dict[str, str] = {}
        self.subscriptions: Counter[Subscription] = Counter()
        self._subscribed: frozenset[str] | None = None
        #: The topics by which the epoch was last looked at; not in the log.
        self.seen: Topics | None = None

    def copy(self) -> ConsumerGroup:
        """Members and sets are shared: they never change."""
        twin = copy(self)
        for name in ("members", "target", "expressions", "holders", "static_members"):
            setattr(twin, name, getattr(self, name).copy())
        twin.subscriptions = self.subscriptions.copy()
        return twin

    # Questions

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        if all(
            each.current.is_reconciled_to(self.assignment_epoch) for each in self.members.values()
        ):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def static_member(self, instance_id: str) -> Member | None:
        return self.members.get(self.static_members.get(instance_id, ""))

    def target_of(self, member_id: str) -> Partitions:
        return self.target.get(member_id, NOTHING)

    def is_free_for(self, member_id: str) -> Callable[[TopicIdPartition], bool]:
        """Whether the member may be given a partition: nobody else holds it."""
        holders = self.holders
        return lambda partition: holders.get(partition, member_id) == member_id

    def topics_of(self, subscription: Subscription) -> frozenset[str]:
        """By name; some may not exist."""
        resolved = self.expressions.get(subscription.expression)
        return subscription.names if resolved is None else subscription.names | resolved.topics

    def subscribed_topics(self) -> frozenset[str]:
        if self._subscribed is None:
            self._subscribed = frozenset().union(*map(self.topics_of, self.subscriptions))
        return self._subscribed

    def used_expressions(self) -> set[str]:
        return {each.expression for each in self.subscriptions if each.expression}

    # Changes

    def apply(self, record: Record) -> None:
        _CHANGES[type(record.key)](self, record.key, record.value)

    def _change_epoch(
        self, _: log.ConsumerGroupMetadataKey, value: log.ConsumerGroupMetadataValue | None
    ) -> None:
        self.epoch = 0 if value is None else value.epoch
        self.metadata_hash = 0 if value is None else value.metadata_hash

    def _change_partition_metadata(
        self,
        _: log.ConsumerGroupPartitionMetadataKey,
        value: log.ConsumerGroupPartitionMetadataValue | None,
    ) -> None:
        self.has_partition_metadata = value is not None

    def _change_member(
        self,
        key: log.ConsumerGroupMemberMetadataKey,
        value: log.ConsumerGroupMemberMetadataValue | None,
    ) -> None:
        before = self.members.get(key.member_id)
        if value is None:
            self._replace(before, None)
        else:
            told = read_member_metadata(value)
            self._replace(before, replace(before or Member(key.member_id), metadata=told))

    def _change_current(
        self,
        key: log.ConsumerGroupCurrentMemberAssignmentKey,
        value: log.ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        before = self.members.get(key.member_id)
        if value is not None:
            has = read_current_assignment(value)
            self._replace(before, replace(before or Member(key.member_id), current=has))
        elif before is not None:
            gone = CurrentAssignment(epoch=LEAVING, previous_epoch=LEAVING)
            self._replace(before, replace(before, current=gone))

    def _change_target_epoch(
        self,
        _: log.ConsumerGroupTargetAssignmentMetadataKey,
        value: log.ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        self.assignment_epoch = 0 if value is None else value.assignment_epoch

    def _change_target(
        self,
        key: log.ConsumerGroupTargetAssignmentMemberKey,
        value: log.ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            self.target.pop(key.member_id, None)
        else:
            self.target[key.member_id] = from_topics(value.topic_partitions)

    def _change_expression(
        self,
        key: log.ConsumerGroupRegularExpressionKey,
        value: log.ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        self._subscribed = None
        if value is None:
            self.expressions.pop(key.regular_expression, None)
        else:
            found = Resolved(frozenset(value.topics), value.timestamp)
            self.expressions[key.regular_expression] = found

    def _replace(self, before: Member | None, after: Member | None) -> None:
        """Another member in its place, or none; at least one of them is there, or nothing is."""
        is_that_instance = before is None or self._is_its_instance(before)
        if before is not None:
            self._forget(before)
        if after is not None:
            self.members[after.id] = after
            self.subscriptions[after.subscription] += 1
            if self.subscriptions[after.subscription] == 1:
                self._subscribed = None
            self.holders.update(dict.fromkeys(after.current.held, after.id))
            if after.instance_id is not None and is_that_instance:
                self.static_members[after.instance_id] = after.id

    def _forget(self, member: Member) -> None:
        """What another holds or is by now, it keeps: a compacted log tells of that first."""
        if member.instance_id is not None and self._is_its_instance(member):
            self.static_members.pop(member.instance_id, None)
        del self.members[member.id]
        self.subscriptions[member.subscription] -= 1
        if not self.subscriptions[member.subscription]:
            del self.subscriptions[member.subscription]
            self._subscribed = None
        for partition in member.current.held:
            if self.holders.get(partition) == member.id:
                del self.holders[partition]

    def _is_its_instance(self, member: Member) -> bool:
        return (
            member.instance_id is None
            or self.static_members.get(member.instance_id, member.id) == member.id
        )


#: The class of the key -> what its record changes
_CHANGES: Mapping[type, Callable[[ConsumerGroup, Any, Any], None]] = {
    log.ConsumerGroupMetadataKey: ConsumerGroup._change_epoch,
    log.ConsumerGroupPartitionMetadataKey: ConsumerGroup._change_partition_metadata,
    log.ConsumerGroupMemberMetadataKey: ConsumerGroup._change_member,
    log.ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroup._change_target_epoch,
    log.ConsumerGroupTargetAssignmentMemberKey: ConsumerGroup._change_target,
    log.ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroup._change_current,
    log.ConsumerGroupRegularExpressionKey: ConsumerGroup._change_expression,
}
