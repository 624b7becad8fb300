"""AlterReplicaLogDirs (key 34): move replicas of one broker to other log directories.

    v0  introduced by KIP-113
    v1  the response is sent before throttling (KIP-219)
    v2  first flexible version

``path`` must be a log directory of the broker; otherwise the error is LOG_DIR_NOT_FOUND.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, string


class AlterReplicaLogDirsRequest(Message, key=34, versions="0-2", flexible="2+"):
    class Directory(Struct):
        class Topic(Struct):
            name: str = string()
            partitions: list[int] = array(int32)

        path: str = string()
        topics: list[Topic] = array(Topic)

    dirs: list[Directory] = array(Directory)


class AlterReplicaLogDirsResponse(Message, key=34, versions="0-2", flexible="2+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32()
            error_code: int = int16()

        topic_name: str = string()
        partitions: list[Partition] = array(Partition)

    throttle_time_ms: int = int32()
    results: list[Topic] = array(Topic)
