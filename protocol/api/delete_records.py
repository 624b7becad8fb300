"""DeleteRecords (key 21): delete the oldest records by advancing the log start offset.

    v0  introduced by KIP-107
    v1  the response is sent before throttling (KIP-219)
    v2  first flexible version

Records before ``offset`` are deleted; -1 is the high watermark.  ``low_watermark`` is the smallest
log start offset among the replicas.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string


class DeleteRecordsRequest(Message, key=21, versions="0-2", flexible="2+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32()
            offset: int = int64()

        name: str = string()
        partitions: list[Partition] = array(Partition)

    topics: list[Topic] = array(Topic)
    timeout_ms: int = int32()


class DeleteRecordsResponse(Message, key=21, versions="0-2", flexible="2+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32()
            low_watermark: int = int64()
            error_code: int = int16()

        name: str = string()
        partitions: list[Partition] = array(Partition)

    throttle_time_ms: int = int32()
    topics: list[Topic] = array(Topic)
