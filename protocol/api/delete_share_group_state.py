"""DeleteShareGroupState (key 86): the group coordinator deletes the state of a share group.

    v0  unstable: early access of KIP-932

The share coordinator, key type 2 of FindCoordinator, stores the state.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, string, uuid
from odradek.protocol.types import Uuid


class DeleteShareGroupStateRequest(Message, key=86, versions="0", flexible="0+", unstable="0"):
    class Topic(Struct):
        class Partition(Struct):
            partition: int = int32()

        topic_id: Uuid = uuid()
        partitions: list[Partition] = array(Partition)

    group_id: str = string()
    topics: list[Topic] = array(Topic)


class DeleteShareGroupStateResponse(Message, key=86, versions="0", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition: int = int32()
            error_code: int = int16()
            error_message: str | None = string(nullable="0+", default=None)

        topic_id: Uuid = uuid()
        partitions: list[Partition] = array(Partition)

    results: list[Topic] = array(Topic)
