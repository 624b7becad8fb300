"""Upgrades classic groups to consumer groups and downgrades them again, while they have members.

A classic group is upgraded when a member of the consumer protocol joins it.  Its members stay with
their assignments, continue to use the classic protocol (classic_members.py), and rebalance.

When the last member of the consumer protocol leaves, the remaining members become a classic group
again and rebalance.  The record of that group has no leader, so a broker that loads it knows that
it must rebalance.  There is no rebalance if that last member rejoined as a classic member and all
members have their target assignment.

In both directions one batch contains the tombstones of the old group and the records of the new
one, so the log never contains both or neither.  ``group.consumer.migration.policy`` says which
directions are allowed.

Kafka: GroupMetadataManager.convertToConsumerGroup, convertToClassicGroup.

Owner: the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from odradek.broker.coordinator.append_errors import STORE_GROUP_ERRORS, map_append_error
from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.group_metadata import GroupMetadata
from odradek.broker.groups.classic.messages import (
    JoinGroupResult,
    MemberProtocol,
    SyncGroupResult,
    Timeouts,
)
from odradek.broker.groups.classic.subscriptions import CONSUMER_PROTOCOL_TYPE
from odradek.broker.groups.consumer import records
from odradek.broker.groups.consumer.consumer_protocol_codec import (
    deserialize_assignment,
    deserialize_subscription,
    serialize_assignment,
)
from odradek.broker.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from odradek.broker.groups.consumer.member import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMember,
    CurrentAssignment,
    MemberMetadata,
    Subscription,
)
from odradek.broker.groups.consumer.partitions import TopicIdPartition
from odradek.broker.groups.consumer.records import CoordinatorRecord, serialize_record
from odradek.broker.groups.consumer.topics import TopicsSnapshot
from odradek.broker.groups.records import group_key, group_value
from odradek.protocol.errors import DecodeError, GroupIdNotFound, KafkaError, RebalanceInProgress
from odradek.protocol.internal.group_log import GroupMetadataValue

if TYPE_CHECKING:
    from odradek.broker.groups.classic.member import ClassicGroupMember as MemberOfClassic
    from odradek.broker.groups.consumer.consumer_group_runtime import ConsumerGroupRuntime

log = logging.getLogger("kafka.coordinator.group")

#: The hash of no topics, so that the first heartbeat computes a new target assignment.  The
#: members' assignments come from a classic leader; topics and members may have changed since.
_UNKNOWN_METADATA_HASH = 0


# From classic to consumer


def check_upgrade(classic_group: ClassicGroup) -> None:
    """Raise GroupIdNotFound if the group cannot be upgraded, as if there were no consumer group."""
    settings = classic_group.shard.context.consumer_settings
    if not settings.may_upgrade:
        raise GroupIdNotFound(
            f"Group {classic_group.id} is a classic group, "
            "and group.consumer.migration.policy does not allow its upgrade."
        )
    if classic_group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise GroupIdNotFound(
            f"Group {classic_group.id} is a classic group, and its protocol type is not consumer."
        )
    if len(classic_group.metadata.members) > settings.max_size:
        raise GroupIdNotFound(
            f"Group {classic_group.id} is a classic group "
            "with more members than group.consumer.max.size."
        )


def convert_to_consumer_group(
    classic_group: ClassicGroup, topics: TopicsSnapshot
) -> tuple[ConsumerGroup, list[CoordinatorRecord]]:
    """Return the group as a consumer group, and its records.  Raise GroupIdNotFound."""
    try:
        members = list(_convert_members(classic_group.metadata, topics))
    except DecodeError as error:
        raise GroupIdNotFound(
            f"Group {classic_group.id} is a classic group with an unknown metadata format: {error}"
        ) from error
    group, epoch = ConsumerGroup(classic_group.id), classic_group.metadata.generation
    new_records = [
        *(
            records.new_member_subscription_record(group.id, member.id, member.metadata)
            for member in members
        ),
        records.new_group_epoch_record(group.id, epoch, _UNKNOWN_METADATA_HASH),
        *(
            records.new_target_assignment_record(
                group.id, member.id, member.current_assignment.assigned
            )
            for member in members
        ),
        records.new_target_assignment_epoch_record(group.id, epoch),
        *(
            records.new_current_assignment_record(group.id, member.id, member.current_assignment)
            for member in members
        ),
    ]
    for record in new_records:
        group.apply(record)
    return group, new_records


def retire_classic_group(classic_group: ClassicGroup) -> None:
    """Fail the waiting requests of an upgraded group: the members rejoin the consumer group."""
    for member in [*classic_group.metadata.members.values()]:
        error = RebalanceInProgress()
        classic_group.metadata.complete_join_future(
            member, JoinGroupResult(member_id=member.id, error=error)
        )
        member.complete_sync_future(SyncGroupResult(error=error))
    classic_group.on_unloaded()


def _convert_members(
    metadata: GroupMetadata, topics: TopicsSnapshot
) -> Iterator[ConsumerGroupMember]:
    assignments = {
        member.id: deserialize_assignment(member.assignment, topics)
        for member in metadata.members.values()
    }
    all_assigned = frozenset().union(*assignments.values())
    taken: set[TopicIdPartition] = set()
    for member in metadata.members.values():
        metadata_by_protocol = {
            protocol.name: protocol.metadata for protocol in member.supported_protocols
        }
        # A member that joined for the next generation need not support the current protocol.
        member_metadata = metadata_by_protocol.get(
            metadata.protocol or "", member.supported_protocols[0].metadata
        )
        subscription = deserialize_subscription(member_metadata, topics)
        # A cooperative member still reads the partitions that it owned when it joined, and may
        # commit their offsets, until it rejoins.  The leader may be about to move these partitions,
        # or may not have assigned them again yet.
        held = assignments[member.id] | (subscription.owned_partitions - all_assigned)
        assigned = held - taken
        taken |= assigned
        yield ConsumerGroupMember(
            member.id,
            MemberMetadata(
                instance_id=member.instance_id,
                rack_id=subscription.rack_id,
                client_id=member.client.id,
                client_host=member.client.host,
                subscription=Subscription(subscription.topic_names),
                rebalance_timeout_ms=member.timeouts.rebalance_timeout_ms,
                classic_metadata=_classic_member_metadata(member),
            ),
            CurrentAssignment(metadata.generation, metadata.generation, assigned=assigned),
        )


def _classic_member_metadata(member: MemberOfClassic) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        member.timeouts.session_timeout_ms,
        tuple(
            ClassicProtocol(protocol.name, protocol.metadata)
            for protocol in member.supported_protocols
        ),
    )


# From consumer to classic


def may_downgrade(
    group_runtime: ConsumerGroupRuntime, *, leaving_member_ids: Collection[str]
) -> bool:
    """Whether all members that remain without ``leaving_member_ids`` use the classic protocol."""
    context, members = group_runtime.shard.context, group_runtime.group.members
    remaining_members = [
        member for member in members.values() if member.id not in leaving_member_ids
    ]
    return (
        context.consumer_settings.may_downgrade
        and 0 < len(remaining_members) <= context.settings.max_size
        and all(member.is_classic for member in remaining_members)
    )


def downgrade(
    group_runtime: ConsumerGroupRuntime,
    *,
    leaving_member_ids: Collection[str],
    leader: str | None = None,
) -> ClassicGroup:
    """Replace the consumer group by a classic group; on KafkaError nothing has changed.

    ``leader`` is a member whose JoinGroup response will name it the leader.  Without a leader, or
    if the group is not stable, the group rebalances.  A leader that does not know that it leads
    would not notice new partitions.
    """
    topics = group_runtime.decision_context.topics
    remaining_members = [
        member
        for member in group_runtime.group.members.values()
        if member.id not in leaving_member_ids
    ]
    metadata = _group_metadata(
        group_runtime.group,
        remaining_members,
        topics,
        leader=leader if group_runtime.group.state is ConsumerGroupState.STABLE else None,
        now_ms=group_runtime.shard.context.now_ms(),
    )
    tombstones = [
        (serialize_record(record)[0], None) for record in group_runtime.deletion_records()
    ]
    record = (group_key(group_runtime.id), group_value(metadata.to_record_value()))
    try:
        group_runtime.shard.log.append([*tombstones, record])
    except KafkaError as error:
        raise map_append_error(error, STORE_GROUP_ERRORS) from error
    log.info(
        "Downgraded group %r to the classic protocol with %d members",
        group_runtime.id,
        len(remaining_members),
    )
    group_runtime.on_unloaded()
    classic_group = ClassicGroup(group_runtime.shard, group_runtime.id, metadata)
    group_runtime.shard.groups[group_runtime.id] = classic_group
    classic_group.on_loaded()
    return classic_group


def _group_metadata(
    group: ConsumerGroup,
    remaining_members: list[ConsumerGroupMember],
    topics: TopicsSnapshot,
    *,
    leader: str | None,
    now_ms: int,
) -> GroupMetadata:
    protocol = _common_protocol(remaining_members)
    metadata = GroupMetadata.from_record_value(
        GroupMetadataValue(
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            generation=group.epoch,
            protocol=protocol,
            leader=leader,
            current_state_timestamp=now_ms,
            members=[_member_record(member, protocol, topics) for member in remaining_members],
        )
    )
    for member in remaining_members:
        assert member.metadata.classic_metadata is not None
        protocols = [
            MemberProtocol(protocol.name, protocol.metadata)
            for protocol in member.metadata.classic_metadata.protocols
        ]
        timeouts = Timeouts(
            member.metadata.classic_metadata.session_timeout_ms,
            member.metadata.rebalance_timeout_ms,
        )
        metadata.update_member(metadata.members[member.id], protocols, timeouts)
    return metadata


def _common_protocol(members: list[ConsumerGroupMember]) -> str:
    """Return a protocol that all members support, which was checked when they joined."""
    names_by_member = [
        [protocol.name for protocol in classic_protocols_of(member)] for member in members
    ]
    return next(
        (name for name in names_by_member[0] if all(name in names for names in names_by_member)), ""
    )


def _member_record(
    member: ConsumerGroupMember, protocol: str, topics: TopicsSnapshot
) -> GroupMetadataValue.MemberMetadata:
    subscription = next(
        (
            supported.metadata
            for supported in classic_protocols_of(member)
            if supported.name == protocol
        ),
        b"",
    )
    classic_metadata = member.metadata.classic_metadata
    return GroupMetadataValue.MemberMetadata(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.metadata.client_id,
        client_host=member.metadata.client_host,
        rebalance_timeout=member.metadata.rebalance_timeout_ms,
        session_timeout=0 if classic_metadata is None else classic_metadata.session_timeout_ms,
        subscription=subscription,
        # All partitions that the member may still read until the next rebalance.
        assignment=serialize_assignment(
            member.current_assignment.held, topics, subscription_blob=subscription
        ),
    )


def classic_protocols_of(member: ConsumerGroupMember) -> tuple[ClassicProtocol, ...]:
    """Return the protocols of a classic member; empty for a member of the consumer protocol."""
    classic_metadata = member.metadata.classic_metadata
    return () if classic_metadata is None else classic_metadata.protocols
