"""ListOffsets (key 2): the offset of a partition at a time, at its start or at its end.

    v0   the base offsets of the newest ``max_num_offsets`` segments before the time
    v1   one exact offset with the timestamp of its record (KIP-79)
    v2   isolation level (KIP-98); the response has a throttle time
    v3   the response is sent before throttling (KIP-219)
    v4   the client's leader epoch is checked; that of the record is returned (KIP-320)
    v5   may return OFFSET_NOT_AVAILABLE (KIP-207)
    v6   first flexible version
    v7   timestamp -3 (KIP-734)
    v8   timestamp -4 (KIP-405)
    v9   timestamp -5 (KIP-1005)
    v10  a timeout for lookups in tiered storage (KIP-1075)

Negative timestamps select:

    -1  the latest offset: the high watermark, or the last stable offset when reading committed
    -2  the earliest offset
    -3  the record with the largest timestamp
    -4  the earliest offset on the broker's local disk
    -5  the latest offset in tiered storage

``replica_id``: a broker, -1 a consumer, -2 a debugging consumer.  ``isolation_level``: 0
uncommitted, 1 committed.
"""

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
