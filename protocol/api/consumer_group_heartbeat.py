"""ConsumerGroupHeartbeat (key 68): a member joins, stays, receives its assignment, leaves.

    v0  introduced by KIP-848
    v1  subscriptions by regular expression (KIP-848); the client generates the member id (KIP-1082)

``member_epoch`` in the request: 0 joins, -1 leaves, -2 leaves as a static member that will return.
Null, or -1 for the timeout, means unchanged since the last heartbeat; a null assignment in the
response means the same.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, string, struct, uuid
from odradek.protocol.types import Uuid


class ConsumerGroupHeartbeatRequest(Message, key=68, versions="0-1", flexible="0+"):
    class TopicPartitions(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(int32)

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(
        TopicPartitions, nullable="0+", default=None
    )


class TopicPartitions(Struct):
    topic_id: Uuid = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupHeartbeatResponse(Message, key=68, versions="0-1", flexible="0+"):
    class Assignment(Struct):
        topic_partitions: list[TopicPartitions] = array(TopicPartitions)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable="0+", default=None)
