"""ShareGroupDescribe (key 77): state, members and assignments of share groups.

    v0  unstable: early access of KIP-932, replaced in Kafka 4.1

``authorized_operations``: as in ``describe_acls.py``.
"""

from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    string,
    struct,
    uuid,
)
from odradek.protocol.types import Uuid


class ShareGroupDescribeRequest(Message, key=77, versions="0", flexible="0+", unstable="0"):
    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


class TopicPartitions(Struct):
    topic_id: Uuid = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ShareGroupDescribeResponse(Message, key=77, versions="0", flexible="0+"):
    class Group(Struct):
        class Member(Struct):
            member_id: str = string()
            rack_id: str | None = string(nullable="0+", default=None)
            member_epoch: int = int32()
            client_id: str = string()
            client_host: str = string()
            subscribed_topic_names: list[str] = array(string)
            assignment: Assignment = struct(Assignment)

        error_code: int = int16()
        error_message: str | None = string(nullable="0+", default=None)
        group_id: str = string()
        group_state: str = string()
        group_epoch: int = int32()
        assignment_epoch: int = int32()
        assignor_name: str = string()
        members: list[Member] = array(Member)
        authorized_operations: int = int32(default=-2147483648)

    throttle_time_ms: int = int32()
    groups: list[Group] = array(Group)
