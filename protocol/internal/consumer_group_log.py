"""Keys and values in ``__consumer_offsets``: consumer groups of KIP-848.

Stored as in ``group_log.py``: an int16 version before every key and value. The key's version is the
record type.  Values have v0 only, read and written; a null value is a tombstone.

    key v3   ConsumerGroupMetadata                  the group's epoch
        v4   ConsumerGroupPartitionMetadata         the subscribed topics, before 4.1
        v5   ConsumerGroupMemberMetadata            a member's subscription and client
        v6   ConsumerGroupTargetAssignmentMetadata  the epoch of the target assignment
        v7   ConsumerGroupTargetAssignmentMember    the target assignment of a member
        v8   ConsumerGroupCurrentMemberAssignment   the current assignment of a member
        v16  ConsumerGroupRegularExpression         the topics that an expression matches

A member's ``state``: 0 stable, 1 has partitions to revoke, 2 waits for partitions of other members.
Instead of key v4, Kafka 4.1 puts a hash of the topics into the value of v3 (KIP-1101): a tagged
field, which 3.9 keeps as an unknown tag.
"""

from odradek.protocol.schema import (
    DEFAULTS,
    Message,
    Struct,
    array,
    byte_string,
    int8,
    int32,
    int64,
    string,
    struct,
    uuid,
)
from odradek.protocol.types import Uuid


class ConsumerGroupMetadataKey(Message, versions="3"):
    group_id: str = string("3")


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64(tag=0, default=0)


class ConsumerGroupPartitionMetadataKey(Message, versions="4"):
    group_id: str = string("4")


class ConsumerGroupPartitionMetadataValue(Message, versions="0", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition: int = int32()
            racks: list[str] = array(string)

        topic_id: Uuid = uuid()
        topic_name: str = string()
        num_partitions: int = int32()
        partition_metadata: list[Partition] = array(Partition)

    topics: list[Topic] = array(Topic)


class ConsumerGroupMemberMetadataKey(Message, versions="5"):
    group_id: str = string("5")
    member_id: str = string("5")


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    class ClassicMemberMetadata(Struct):
        class SupportedProtocol(Struct):
            name: str = string()
            metadata: bytes = byte_string()

        session_timeout_ms: int = int32()
        supported_protocols: list[SupportedProtocol] = array(SupportedProtocol)

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    # Null is written out: a missing tag means an empty struct to Kafka.
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, nullable="0+", tag=0, default=DEFAULTS
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions="6"):
    group_id: str = string("6")


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int = int32()


class ConsumerGroupTargetAssignmentMemberKey(Message, versions="7"):
    group_id: str = string("7")
    member_id: str = string("7")


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(int32)

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions="8"):
    group_id: str = string("8")
    member_id: str = string("8")


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(int32)

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupRegularExpressionKey(Message, versions="16"):
    group_id: str = string("16")
    regular_expression: str = string("16")


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()
