"""DescribeLogDirs (key 35): the replicas and sizes in the log directories of one broker.

    v0  introduced by KIP-113
    v1  the response is sent before throttling (KIP-219)
    v2  first flexible version
    v3  an error code for the whole request (KIP-784)
    v4  total and usable bytes of the volume (KIP-827)

Null ``topics`` select all.  ``is_future_key`` marks the copy that AlterReplicaLogDirs creates.
Its ``offset_lag`` is the lag behind the replica it will replace; that of any other log is the lag
behind the high watermark.
"""

from odradek.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, string


class DescribeLogDirsRequest(Message, key=35, versions="0-4", flexible="2+"):
    class Topic(Struct):
        topic: str = string()
        partitions: list[int] = array(int32)

    topics: list[Topic] | None = array(Topic, nullable="0+")


class DescribeLogDirsResponse(Message, key=35, versions="0-4", flexible="2+"):
    class Directory(Struct):
        class Topic(Struct):
            class Partition(Struct):
                partition_index: int = int32()
                partition_size: int = int64()
                offset_lag: int = int64()
                is_future_key: bool = boolean()

            name: str = string()
            partitions: list[Partition] = array(Partition)

        error_code: int = int16()
        log_dir: str = string()
        topics: list[Topic] = array(Topic)
        total_bytes: int = int64("4+", default=-1, ignorable=True)
        usable_bytes: int = int64("4+", default=-1, ignorable=True)

    throttle_time_ms: int = int32()
    error_code: int = int16("3+", default=0, ignorable=True)
    results: list[Directory] = array(Directory)
