"""WriteShareGroupState (key 85): a share-partition's leader stores its state.

    v0  unstable: early access of KIP-932

``delivery_state``: 0 available, 2 acknowledged, 4 archived.  ``start_offset`` -1 keeps the start
offset.
"""

from odradek.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string, uuid
from odradek.protocol.types import Uuid


class WriteShareGroupStateRequest(Message, key=85, versions="0", flexible="0+", unstable="0"):
    class Topic(Struct):
        class Partition(Struct):
            class StateBatch(Struct):
                first_offset: int = int64()
                last_offset: int = int64()
                delivery_state: int = int8()
                delivery_count: int = int16()

            partition: int = int32()
            state_epoch: int = int32()
            leader_epoch: int = int32()
            start_offset: int = int64()
            state_batches: list[StateBatch] = array(StateBatch)

        topic_id: Uuid = uuid()
        partitions: list[Partition] = array(Partition)

    group_id: str = string()
    topics: list[Topic] = array(Topic)


class WriteShareGroupStateResponse(Message, key=85, versions="0", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition: int = int32()
            error_code: int = int16()
            error_message: str | None = string(nullable="0+", default=None)

        topic_id: Uuid = uuid()
        partitions: list[Partition] = array(Partition)

    results: list[Topic] = array(Topic)
