"""DescribeTopicPartitions (key 75): describe topics page by page.

    v0  introduced by KIP-966

Empty ``topics`` select all.  A page has at most ``response_partition_limit`` partitions; a
``next_cursor`` other than null is the ``cursor`` of the next request.
``topic_authorized_operations``: as in ``describe_acls.py``.
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


class DescribeTopicPartitionsRequest(Message, key=75, versions="0", flexible="0+"):
    class Topic(Struct):
        name: str = string()

    class Cursor(Struct):
        topic_name: str = string()
        partition_index: int = int32()

    topics: list[Topic] = array(Topic)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = struct(Cursor, nullable="0+", default=None)


class DescribeTopicPartitionsResponse(Message, key=75, versions="0", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            error_code: int = int16()
            partition_index: int = int32()
            leader_id: int = int32()
            leader_epoch: int = int32(default=-1, ignorable=True)
            replica_nodes: list[int] = array(int32)
            isr_nodes: list[int] = array(int32)
            eligible_leader_replicas: list[int] | None = array(int32, nullable="0+", default=None)
            last_known_elr: list[int] | None = array(int32, nullable="0+", default=None)
            offline_replicas: list[int] = array(int32, ignorable=True)

        error_code: int = int16()
        name: str | None = string(nullable="0+")
        topic_id: Uuid = uuid(ignorable=True)
        is_internal: bool = boolean(default=False, ignorable=True)
        partitions: list[Partition] = array(Partition)
        topic_authorized_operations: int = int32(default=-2147483648)

    class Cursor(Struct):
        topic_name: str = string()
        partition_index: int = int32()

    throttle_time_ms: int = int32(ignorable=True)
    topics: list[Topic] = array(Topic)
    next_cursor: Cursor | None = struct(Cursor, nullable="0+", default=None)
