"""ReadShareGroupStateSummary (key 87): the start offset of share-partitions, without batches.

    v0  unstable: early access of KIP-932

``start_offset`` is -1 if not yet known.  Kafka 4.1 adds a leader epoch to the response without a
new version.
"""

from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string, uuid
from odradek.protocol.types import Uuid


class ReadShareGroupStateSummaryRequest(Message, key=87, versions="0", flexible="0+", unstable="0"):
    class Topic(Struct):
        class Partition(Struct):
            partition: int = int32()
            leader_epoch: int = int32()

        topic_id: Uuid = uuid()
        partitions: list[Partition] = array(Partition)

    group_id: str = string()
    topics: list[Topic] = array(Topic)


class ReadShareGroupStateSummaryResponse(Message, key=87, versions="0", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            partition: int = int32()
            error_code: int = int16()
            error_message: str | None = string(nullable="0+", default=None)
            state_epoch: int = int32()
            start_offset: int = int64()

        topic_id: Uuid = uuid()
        partitions: list[Partition] = array(Partition)

    results: list[Topic] = array(Topic)
