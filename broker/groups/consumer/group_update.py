"""The records of a decision about a group, and the group that they result in.

The group itself is not changed.  The first record makes a copy, and the decision continues on the
copy.  A heartbeat that changes nothing copies nothing, and a decision that fails half-way leaves no
trace.  A copy costs 0.1 ms for 1,000 members with 10,000 partitions.  When the records are in the
log, the copy replaces the group, and no record is applied twice.

Owner: the event loop, for the length of one decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from odradek.broker.groups.consumer import records
from odradek.broker.groups.consumer.assignors import Assignors
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.member import (
    ConsumerGroupMember,
    CurrentAssignment,
    MemberMetadata,
)
from odradek.broker.groups.consumer.partitions import Partitions
from odradek.broker.groups.consumer.records import CoordinatorRecord
from odradek.broker.groups.consumer.topics import TopicsSnapshot


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """The inputs of a decision beside the group and the request."""

    topics: TopicsSnapshot
    now_ms: int
    assignors: Assignors
    max_group_size: int


class GroupUpdate:
    """``group`` is read-only for callers; the methods below change it."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.records: list[CoordinatorRecord] = []

    def write(self, new_records: Iterable[CoordinatorRecord]) -> None:
        for record in new_records:
            self._add_record(record)
            self.group.apply(record)

    def _add_record(self, record: CoordinatorRecord) -> None:
        if not self.records:
            self.group = self.group.copy()
        self.records.append(record)

    def put_member_metadata(self, member_id: str, metadata: MemberMetadata) -> None:
        self.write([records.new_member_subscription_record(self.group.id, member_id, metadata)])

    def put_current_assignment(self, member_id: str, current: CurrentAssignment) -> None:
        self.write([records.new_current_assignment_record(self.group.id, member_id, current)])

    def put_target_assignment(self, member_id: str, partitions: Partitions) -> None:
        """Add the record and apply it directly, without decoding the partitions from the record."""
        self._add_record(records.new_target_assignment_record(self.group.id, member_id, partitions))
        self.group.target_assignment[member_id] = partitions

    def put_group_epoch(self, epoch: int, metadata_hash: int) -> None:
        self.write([records.new_group_epoch_record(self.group.id, epoch, metadata_hash)])

    def replace_member(
        self, old_member: ConsumerGroupMember, new_member: ConsumerGroupMember
    ) -> None:
        """Replace a static member; the new one takes over its current and target assignment."""
        group_id, target = self.group.id, self.group.target_assignment_of(old_member.id)
        self.write(records.new_member_tombstones(group_id, old_member.id))
        self.put_member_metadata(new_member.id, new_member.metadata)
        self.put_target_assignment(new_member.id, target)
        self.put_current_assignment(new_member.id, new_member.current_assignment)

    def remove_member(self, member_id: str) -> None:
        self.write(records.new_member_tombstones(self.group.id, member_id))
