"""Records of ``__consumer_offsets`` about groups of the consumer protocol, both ways.

One function makes each kind of record, one reads it; what the kinds mean is told in
``odradek.protocol.internal.consumer_group_log``.  A record is a key and a value, None to delete.
The deletions of a group or a member are listed in the order in which Kafka's replay wants them:
what a member has, what it shall have, the member; the group last.

Owner: none; pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from odradek.broker.groups.consumer.member import (
    ClassicMember,
    ClassicProtocol,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
    Subscription,
)
from odradek.broker.groups.consumer.partitions import Partitions, from_topics, to_topics
from odradek.protocol.codec import Buffer
from odradek.protocol.internal import consumer_group_log as log
from odradek.protocol.internal.log_record import GROUP_LOG, decode_part, encode_part, part_version
from odradek.protocol.schema import Message

_VALUE_VERSION = 0
#: The versions of the keys that are about groups of this protocol.
KINDS = (*range(3, 9), 16)


class Record(NamedTuple):
    """``value`` is None to delete."""

    key: Message
    value: Message | None


@dataclass(frozen=True, slots=True)
class Resolved:
    """The topics that an expression matched, and when."""

    topics: frozenset[str]
    timestamp_ms: int


def as_stored(record: Record) -> tuple[bytes, bytes | None]:
    """A key has one version, and its number is the kind."""
    value = None if record.value is None else encode_part(record.value, _VALUE_VERSION)
    return encode_part(record.key, record.key.__schema__.versions.high), value


def from_stored(key: Buffer, value: Buffer | None) -> Record:
    """Of one of KINDS."""
    kind = GROUP_LOG[part_version(key)]
    return Record(
        decode_part(kind.key, key), None if value is None else decode_part(kind.value, value)
    )


def group_of(record: Record) -> str:
    group_id: str = record.key.group_id  # type: ignore[attr-defined]  # every key has one
    return group_id


# Making them


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    return Record(
        log.ConsumerGroupMetadataKey(group_id=group_id),
        log.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def member_metadata(group_id: str, member_id: str, metadata: MemberMetadata) -> Record:
    return Record(
        log.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id),
        log.ConsumerGroupMemberMetadataValue(
            instance_id=metadata.instance_id,
            rack_id=metadata.rack_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            subscribed_topic_names=sorted(metadata.subscription.names),
            subscribed_topic_regex=metadata.subscription.expression,
            rebalance_timeout_ms=metadata.rebalance_timeout_ms,
            server_assignor=metadata.assignor,
            classic_member_metadata=_classic_value(metadata.classic),
        ),
    )


def target_epoch(group_id: str, epoch: int) -> Record:
    return Record(
        log.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        log.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch),
    )


def target_member(group_id: str, member_id: str, partitions: Partitions) -> Record:
    value = log.ConsumerGroupTargetAssignmentMemberValue
    return Record(
        log.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        value(topic_partitions=to_topics(partitions, value.TopicPartitions)),
    )


def current_assignment(group_id: str, member_id: str, current: CurrentAssignment) -> Record:
    value = log.ConsumerGroupCurrentMemberAssignmentValue
    return Record(
        log.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
        value(
            member_epoch=current.epoch,
            previous_member_epoch=current.previous_epoch,
            state=current.state.value,
            assigned_partitions=to_topics(current.assigned, value.TopicPartitions),
            partitions_pending_revocation=to_topics(current.to_revoke, value.TopicPartitions),
        ),
    )


def expression(group_id: str, regular_expression: str, resolved: Resolved | None) -> Record:
    """``version``, by which Kafka counts changes of its metadata, says nothing here."""
    return Record(
        log.ConsumerGroupRegularExpressionKey(
            group_id=group_id, regular_expression=regular_expression
        ),
        None
        if resolved is None
        else log.ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=0, timestamp=resolved.timestamp_ms
        ),
    )


def without_member(group_id: str, member_id: str) -> list[Record]:
    return [
        Record(
            log.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
            None,
        ),
        Record(
            log.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
            None,
        ),
        Record(log.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def without_partition_metadata(group_id: str) -> Record:
    """What brokers before 4.1 wrote where the hash is now."""
    return Record(log.ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def without_group(
    group_id: str, members: Iterable[str], expressions: Iterable[str]
) -> list[Record]:
    return [
        *(record for member in members for record in without_member(group_id, member)),
        *(expression(group_id, each, None) for each in expressions),
        Record(log.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        without_partition_metadata(group_id),
        Record(log.ConsumerGroupMetadataKey(group_id=group_id), None),
    ]


# Reading them


def read_member_metadata(value: log.ConsumerGroupMemberMetadataValue) -> MemberMetadata:
    return MemberMetadata(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscription=Subscription(
            frozenset(value.subscribed_topic_names), value.subscribed_topic_regex or ""
        ),
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=_read_classic(value.classic_member_metadata),
    )


def read_current_assignment(
    value: log.ConsumerGroupCurrentMemberAssignmentValue,
) -> CurrentAssignment:
    return CurrentAssignment(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState.of_record(value.state),
        assigned=from_topics(value.assigned_partitions),
        to_revoke=from_topics(value.partitions_pending_revocation),
    )


_ClassicValue = log.ConsumerGroupMemberMetadataValue.ClassicMemberMetadata


def _classic_value(classic: ClassicMember | None) -> _ClassicValue | None:
    if classic is None:
        return None
    return _ClassicValue(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=[
            _ClassicValue.SupportedProtocol(name=each.name, metadata=each.metadata)
            for each in classic.protocols
        ],
    )


def _read_classic(value: _ClassicValue | None) -> ClassicMember | None:
    if value is None:
        return None
    protocols = value.supported_protocols
    return ClassicMember(
        session_timeout_ms=value.session_timeout_ms,
        protocols=tuple(ClassicProtocol(each.name, bytes(each.metadata)) for each in protocols),
    )
