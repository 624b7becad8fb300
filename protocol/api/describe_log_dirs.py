"""DescribeLogDirs (key 35): what lies in the log directories of one broker?

    v0  introduced by KIP-113
    v1  the answer is sent before throttling (KIP-219)
    v2  first flexible version
    v3  an error of the whole request (KIP-784)
    v4  size of the volume and space left on it (KIP-827)

Null ``topics`` ask for all.  ``is_future_key`` marks the copy that AlterReplicaLogDirs is filling.
Its ``offset_lag`` is how far it is behind the replica it will replace; that of another log, how far
it is behind the high watermark.
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
