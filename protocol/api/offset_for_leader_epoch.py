"""OffsetForLeaderEpoch (key 23): the end offset of a leader epoch in this log.

    v0  introduced by KIP-101
    v1  the response has the epoch found: the requested or an earlier one (KIP-279)
    v2  the client's leader epoch is checked (KIP-320); the response has a throttle time
    v3  the replica id distinguishes consumers and followers (KIP-392)
    v4  first flexible version

``replica_id``: a broker, -1 a consumer, -2 a debugging consumer, which may read beyond the
high watermark.  ``end_offset`` is -1 if no such epoch is known.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string


class OffsetForLeaderEpochRequest(Message, key=23, versions="0-4", flexible="4+"):
    class Topic(Struct):
        class Partition(Struct):
            partition: int = int32()
            current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
            leader_epoch: int = int32()

        topic: str = string()
        partitions: list[Partition] = array(Partition)

    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: list[Topic] = array(Topic)


class OffsetForLeaderEpochResponse(Message, key=23, versions="0-4", flexible="4+"):
    class Topic(Struct):
        class Partition(Struct):
            error_code: int = int16()
            partition: int = int32()
            leader_epoch: int = int32("1+", default=-1, ignorable=True)
            end_offset: int = int64(default=-1)

        topic: str = string()
        partitions: list[Partition] = array(Partition)

    throttle_time_ms: int = int32("2+", default=0, ignorable=True)
    topics: list[Topic] = array(Topic)
