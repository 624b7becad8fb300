"""Builds and reads the records of consumer groups in ``__consumer_offsets``.

Each record type has one function that builds it and one that reads it.  The types are documented in
``odradek.protocol.internal.consumer_group_log``.  A record is a key and a value; the value None is
a tombstone.  The tombstones of a group or a member are in the order that Kafka's replay needs:
current assignment, target assignment, member; the group last.

Kafka: GroupCoordinatorRecordHelpers.

Owner: none; pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from odradek.broker.groups.consumer.member import (
    ClassicMemberMetadata,
    ClassicProtocol,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
    Subscription,
)
from odradek.broker.groups.consumer.partitions import (
    Partitions,
    partitions_from_topics,
    partitions_to_topics,
)
from odradek.protocol.codec import Buffer
from odradek.protocol.internal import consumer_group_log as log
from odradek.protocol.internal.coordinator_record import (
    GROUP_RECORD_TYPES,
    decode_version_prefixed,
    encode_version_prefixed,
    read_version_prefix,
)
from odradek.protocol.schema import Message

_VALUE_VERSION = 0
#: The key versions of the records of consumer groups.
RECORD_KEY_VERSIONS = (*range(3, 9), 16)


class CoordinatorRecord(NamedTuple):
    """A record; a ``value`` of None is a tombstone."""

    key: Message
    value: Message | None


@dataclass(frozen=True, slots=True)
class ResolvedRegularExpression:
    """The topics that a regular expression matched, and when."""

    topics: frozenset[str]
    timestamp_ms: int


def serialize_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Encode a record; each key class has one version, which identifies the record type."""
    value = None if record.value is None else encode_version_prefixed(record.value, _VALUE_VERSION)
    return encode_version_prefixed(record.key, record.key.__schema__.versions.high), value


def deserialize_record(key: Buffer, value: Buffer | None) -> CoordinatorRecord:
    """Decode a record whose key version is one of RECORD_KEY_VERSIONS."""
    record_type = GROUP_RECORD_TYPES[read_version_prefix(key)]
    return CoordinatorRecord(
        decode_version_prefixed(record_type.key, key),
        None if value is None else decode_version_prefixed(record_type.value, value),
    )


def group_id_of(record: CoordinatorRecord) -> str:
    group_id: str = record.key.group_id  # type: ignore[attr-defined]  # every key has one
    return group_id


# Building records


def new_group_epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        log.ConsumerGroupMetadataKey(group_id=group_id),
        log.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def new_member_subscription_record(
    group_id: str, member_id: str, metadata: MemberMetadata
) -> CoordinatorRecord:
    return CoordinatorRecord(
        log.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id),
        log.ConsumerGroupMemberMetadataValue(
            instance_id=metadata.instance_id,
            rack_id=metadata.rack_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            subscribed_topic_names=sorted(metadata.subscription.topic_names),
            subscribed_topic_regex=metadata.subscription.topic_regex,
            rebalance_timeout_ms=metadata.rebalance_timeout_ms,
            server_assignor=metadata.assignor,
            classic_member_metadata=_classic_value(metadata.classic_metadata),
        ),
    )


def new_target_assignment_epoch_record(group_id: str, epoch: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        log.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        log.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch),
    )


def new_target_assignment_record(
    group_id: str, member_id: str, partitions: Partitions
) -> CoordinatorRecord:
    value = log.ConsumerGroupTargetAssignmentMemberValue
    return CoordinatorRecord(
        log.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        value(topic_partitions=partitions_to_topics(partitions, value.TopicPartitions)),
    )


def new_current_assignment_record(
    group_id: str, member_id: str, current: CurrentAssignment
) -> CoordinatorRecord:
    value = log.ConsumerGroupCurrentMemberAssignmentValue
    return CoordinatorRecord(
        log.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
        value(
            member_epoch=current.epoch,
            previous_member_epoch=current.previous_epoch,
            state=current.state.value,
            assigned_partitions=partitions_to_topics(current.assigned, value.TopicPartitions),
            partitions_pending_revocation=partitions_to_topics(
                current.pending_revocation, value.TopicPartitions
            ),
        ),
    )


def new_regular_expression_record(
    group_id: str, regular_expression: str, resolved: ResolvedRegularExpression | None
) -> CoordinatorRecord:
    """Build the record; ``version``, Kafka's metadata image version, is not used and always 0."""
    return CoordinatorRecord(
        log.ConsumerGroupRegularExpressionKey(
            group_id=group_id, regular_expression=regular_expression
        ),
        None
        if resolved is None
        else log.ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=0, timestamp=resolved.timestamp_ms
        ),
    )


def new_member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    return [
        CoordinatorRecord(
            log.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
            None,
        ),
        CoordinatorRecord(
            log.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
            None,
        ),
        CoordinatorRecord(
            log.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None
        ),
    ]


def new_partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Build the tombstone of the record that Kafka before 4.1 wrote in place of the hash."""
    return CoordinatorRecord(log.ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def new_group_tombstones(
    group_id: str, members: Iterable[str], regexes: Iterable[str]
) -> list[CoordinatorRecord]:
    return [
        *(record for member in members for record in new_member_tombstones(group_id, member)),
        *(new_regular_expression_record(group_id, regex, None) for regex in regexes),
        CoordinatorRecord(log.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        new_partition_metadata_tombstone(group_id),
        CoordinatorRecord(log.ConsumerGroupMetadataKey(group_id=group_id), None),
    ]


# Reading records


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
        classic_metadata=_read_classic(value.classic_member_metadata),
    )


def read_current_assignment(
    value: log.ConsumerGroupCurrentMemberAssignmentValue,
) -> CurrentAssignment:
    return CurrentAssignment(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState.from_value(value.state),
        assigned=partitions_from_topics(value.assigned_partitions),
        pending_revocation=partitions_from_topics(value.partitions_pending_revocation),
    )


_ClassicValue = log.ConsumerGroupMemberMetadataValue.ClassicMemberMetadata


def _classic_value(classic_metadata: ClassicMemberMetadata | None) -> _ClassicValue | None:
    if classic_metadata is None:
        return None
    return _ClassicValue(
        session_timeout_ms=classic_metadata.session_timeout_ms,
        supported_protocols=[
            _ClassicValue.SupportedProtocol(name=protocol.name, metadata=protocol.metadata)
            for protocol in classic_metadata.protocols
        ],
    )


def _read_classic(value: _ClassicValue | None) -> ClassicMemberMetadata | None:
    if value is None:
        return None
    protocols = value.supported_protocols
    return ClassicMemberMetadata(
        session_timeout_ms=value.session_timeout_ms,
        protocols=tuple(
            ClassicProtocol(protocol.name, bytes(protocol.metadata)) for protocol in protocols
        ),
    )
