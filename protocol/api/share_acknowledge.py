"""ShareAcknowledge (key 79): a share group member acknowledges records without fetching.

    v0  unstable: early access of KIP-932, replaced in Kafka 4.1

Acknowledge types and session epochs: as in ``share_fetch.py``.
"""

from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
    uuid,
)
from odradek.protocol.types import Uuid


class ShareAcknowledgeRequest(Message, key=79, versions="0", flexible="0+", unstable="0"):
    class Topic(Struct):
        class Partition(Struct):
            class AcknowledgementBatch(Struct):
                first_offset: int = int64()
                last_offset: int = int64()
                acknowledge_types: list[int] = array(int8)

            partition_index: int = int32()
            acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)

        topic_id: Uuid = uuid()
        partitions: list[Partition] = array(Partition)

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    topics: list[Topic] = array(Topic)


class ShareAcknowledgeResponse(Message, key=79, versions="0", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            class LeaderIdAndEpoch(Struct):
                leader_id: int = int32()
                leader_epoch: int = int32()

            partition_index: int = int32()
            error_code: int = int16()
            error_message: str | None = string(nullable="0+", default=None)
            current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)

        topic_id: Uuid = uuid(ignorable=True)
        partitions: list[Partition] = array(Partition)

    class NodeEndpoint(Struct):
        node_id: int = int32()
        host: str = string()
        port: int = int32()
        rack: str | None = string(nullable="0+", default=None)

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16(ignorable=True)
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[Topic] = array(Topic)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
