"""ShareGroupHeartbeat (key 76): a member joins a share group, stays and leaves.

    v0  unstable: early access of KIP-932, replaced in Kafka 4.1

``member_epoch`` in the request: 0 joins, -1 leaves.  Null means unchanged since the last heartbeat,
in the request and in the response.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, string, struct, uuid
from odradek.protocol.types import Uuid


class ShareGroupHeartbeatRequest(Message, key=76, versions="0", flexible="0+", unstable="0"):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(string, nullable="0+", default=None)


class TopicPartitions(Struct):
    topic_id: Uuid = uuid()
    partitions: list[int] = array(int32)


class ShareGroupHeartbeatResponse(Message, key=76, versions="0", flexible="0+"):
    class Assignment(Struct):
        topic_partitions: list[TopicPartitions] = array(TopicPartitions)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable="0+", default=None)
