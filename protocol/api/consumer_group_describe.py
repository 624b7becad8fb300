"""ConsumerGroupDescribe (key 69): state, members and assignments of KIP-848 consumer groups.

    v0  introduced by KIP-848
    v1  the protocol of each member (KIP-1099)

Group states: Empty, Assigning, Reconciling, Stable, Dead.  ``member_type``: -1 unknown, 0 classic
protocol, 1 consumer protocol.  ``authorized_operations``: as in ``describe_acls.py``.
"""

from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
    struct,
    uuid,
)
from odradek.protocol.types import Uuid


class ConsumerGroupDescribeRequest(Message, key=69, versions="0-1", flexible="0+"):
    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


class TopicPartitions(Struct):
    topic_id: Uuid = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupDescribeResponse(Message, key=69, versions="0-1", flexible="0+"):
    class Group(Struct):
        class Member(Struct):
            member_id: str = string()
            instance_id: str | None = string(nullable="0+", default=None)
            rack_id: str | None = string(nullable="0+", default=None)
            member_epoch: int = int32()
            client_id: str = string()
            client_host: str = string()
            subscribed_topic_names: list[str] = array(string)
            subscribed_topic_regex: str | None = string(nullable="0+", default=None)
            assignment: Assignment = struct(Assignment)
            target_assignment: Assignment = struct(Assignment)
            member_type: int = int8("1+", default=-1, ignorable=True)

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
