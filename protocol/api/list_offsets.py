"""ListOffsets (key 2): offset at a timestamp, or earliest/latest."""

from odradek.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string


class ListOffsetsRequest(Message, key=2, versions="0-10", flexible="6+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32()
            current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
            timestamp: int = int64()
            max_num_offsets: int = int32("0", default=1)

        name: str = string()
        partitions: list[Partition] = array(Partition)

    replica_id: int = int32()
    isolation_level: int = int8("2+", default=0)
    topics: list[Topic] = array(Topic)
    timeout_ms: int = int32("10+", default=0, ignorable=True)


class ListOffsetsResponse(Message, key=2, versions="0-10", flexible="6+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32()
            error_code: int = int16()
            old_style_offsets: list[int] = array(int64, "0", default=[])
            timestamp: int = int64("1+", default=-1)
            offset: int = int64("1+", default=-1)
            leader_epoch: int = int32("4+", default=-1)

        name: str = string()
        partitions: list[Partition] = array(Partition)

    throttle_time_ms: int = int32("2+", default=0, ignorable=True)
    topics: list[Topic] = array(Topic)
