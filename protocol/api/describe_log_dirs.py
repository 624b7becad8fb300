"""DescribeLogDirs (key 35): sizes and state of log directories."""

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
