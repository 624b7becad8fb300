"""AlterPartitionReassignments (key 45): reassign partitions to other replicas, or cancel that.

    v0  introduced by KIP-455
    v1  a change of the replication factor can be forbidden (KIP-860)

Null ``replicas`` cancel the reassignment in progress.
"""

from odradek.protocol.schema import Message, Struct, array, boolean, int16, int32, string


class AlterPartitionReassignmentsRequest(Message, key=45, versions="0-1", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32()
            replicas: list[int] | None = array(int32, nullable="0+", default=None)

        name: str = string()
        partitions: list[Partition] = array(Partition)

    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[Topic] = array(Topic)


class AlterPartitionReassignmentsResponse(Message, key=45, versions="0-1", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32()
            error_code: int = int16()
            error_message: str | None = string(nullable="0+")

        name: str = string()
        partitions: list[Partition] = array(Partition)

    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean("1+", default=True, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    responses: list[Topic] = array(Topic)
