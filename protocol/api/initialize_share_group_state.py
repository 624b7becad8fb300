"""InitializeShareGroupState (key 83): the group coordinator creates the state of a share group.

    v0  unstable: early access of KIP-932

With ``start_offset`` -1 the start offset of the share-partition is undefined.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string, uuid
from odradek.protocol.types import Uuid


class InitializeShareGroupStateRequest(Message, key=83, versions="0", flexible="0+", unstable="0"):
    class Topic(Struct):
        class Partition(Struct):
            partition: int = int32()
            state_epoch: int = int32()
            start_offset: int = int64()

        topic_id: Uuid = uuid()
        partitions: list[Partition] = array(Partition)

    group_id: str = string()
    topics: list[Topic] = array(Topic)


class InitializeShareGroupStateResponse(Message, key=83, versions="0", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition: int = int32()
            error_code: int = int16()
            error_message: str | None = string(nullable="0+", default=None)

        topic_id: Uuid = uuid()
        partitions: list[Partition] = array(Partition)

    results: list[Topic] = array(Topic)
