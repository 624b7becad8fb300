"""Keys and values in ``__consumer_offsets``: share groups (KIP-932).

Stored as in ``group_log.py``: an int16 version before every key and value. The key's version is the
record type.  Values have v0 only; a null value is a tombstone.

    key v10  ShareGroupMemberMetadata            a member's subscription and client
        v11  ShareGroupMetadata                  the group's epoch
        v12  ShareGroupTargetAssignmentMetadata  the epoch of the target assignment
        v13  ShareGroupTargetAssignmentMember    the target assignment of a member
        v14  ShareGroupCurrentMemberAssignment   the current assignment of a member
        v15  ShareGroupStatePartitionMetadata    partitions with state at the share coordinator

A member's ``state``: as in ``consumer_group_log.py``.  The value of key v11 is that of Kafka 3.9
and 4.0; in 4.1 an int64, the hash of the topics, follows the epoch.
"""

from odradek.protocol.schema import Message, Struct, array, int8, int32, string, uuid
from odradek.protocol.types import Uuid


class ShareGroupMemberMetadataKey(Message, versions="10"):
    group_id: str = string("10")
    member_id: str = string("10")


class ShareGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)


class ShareGroupMetadataKey(Message, versions="11"):
    group_id: str = string("11")


class ShareGroupMetadataValue(Message, versions="0", flexible="0+"):
    epoch: int = int32()


class ShareGroupTargetAssignmentMetadataKey(Message, versions="12"):
    group_id: str = string("12")


class ShareGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int = int32()


class ShareGroupTargetAssignmentMemberKey(Message, versions="13"):
    group_id: str = string("13")
    member_id: str = string("13")


class ShareGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(int32)

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupCurrentMemberAssignmentKey(Message, versions="14"):
    group_id: str = string("14")
    member_id: str = string("14")


class ShareGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(int32)

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupStatePartitionMetadataKey(Message, versions="15"):
    group_id: str = string("15")


class ShareGroupStatePartitionMetadataValue(Message, versions="0", flexible="0+"):
    class TopicPartitionsInfo(Struct):
        topic_id: Uuid = uuid()
        topic_name: str = string()
        partitions: list[int] = array(int32)

    class TopicInfo(Struct):
        topic_id: Uuid = uuid()
        topic_name: str = string()

    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfo] = array(TopicInfo)
