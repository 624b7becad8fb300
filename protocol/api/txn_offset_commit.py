"""TxnOffsetCommit (key 28): commit a group's offsets as part of a transaction.

    v0  introduced by KIP-98
    v1  the response is sent before throttling (KIP-219)
    v2  leader epochs with the offsets (KIP-320)
    v3  first flexible version; the group's members are checked (KIP-447)
    v4  may return TRANSACTION_ABORTABLE (KIP-890)
    v5  adds the group's offsets to the transaction implicitly (KIP-890)

The offsets are pending until the transaction commits.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string


class TxnOffsetCommitRequest(Message, key=28, versions="0-5", flexible="3+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32()
            committed_offset: int = int64()
            committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
            committed_metadata: str | None = string(nullable="0+")

        name: str = string()
        partitions: list[Partition] = array(Partition)

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[Topic] = array(Topic)


class TxnOffsetCommitResponse(Message, key=28, versions="0-5", flexible="3+"):
    class Topic(Struct):
        class Partition(Struct):
            partition_index: int = int32()
            error_code: int = int16()

        name: str = string()
        partitions: list[Partition] = array(Partition)

    throttle_time_ms: int = int32()
    topics: list[Topic] = array(Topic)
