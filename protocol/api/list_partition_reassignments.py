"""ListPartitionReassignments (key 46): the reassignments in progress.

    v0  introduced by KIP-455

Null ``topics`` select all.  ``replicas`` includes the adding and the removing replicas.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, string


class ListPartitionReassignmentsRequest(Message, key=46, versions="0", flexible="0+"):
    class Topic(Struct):
        name: str = string()
        partition_indexes: list[int] = array(int32)

    timeout_ms: int = int32(default=60000)
    topics: list[Topic] | None = array(Topic, nullable="0+", default=None)


class ListPartitionReassignmentsResponse(Message, key=46, versions="0", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32()
            replicas: list[int] = array(int32)
            adding_replicas: list[int] = array(int32)
            removing_replicas: list[int] = array(int32)

        name: str = string()
        partitions: list[Partition] = array(Partition)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    topics: list[Topic] = array(Topic)
