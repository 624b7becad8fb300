"""OffsetDelete (key 47): delete committed offsets of topics that a group no longer reads.

    v0  introduced by KIP-496, never flexible

The error for a topic that a member subscribes to is GROUP_SUBSCRIBED_TO_TOPIC.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, string


class OffsetDeleteRequest(Message, key=47, versions="0"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32()

        name: str = string()
        partitions: list[Partition] = array(Partition)

    group_id: str = string()
    topics: list[Topic] = array(Topic)


class OffsetDeleteResponse(Message, key=47, versions="0"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32()
            error_code: int = int16()

        name: str = string()
        partitions: list[Partition] = array(Partition)

    error_code: int = int16()
    throttle_time_ms: int = int32(ignorable=True)
    topics: list[Topic] = array(Topic)
