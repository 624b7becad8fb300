"""ShareFetch (key 78): a share group member acquires records and acknowledges earlier ones.

    v0  unstable: early access of KIP-932, replaced in Kafka 4.1

The numbers of the share fetch APIs:

    acknowledge type     0 gap, 1 accept, 2 release for redelivery, 3 reject; one for a whole batch
                         or one for every offset in it
    share session epoch  0 opens a session, -1 closes it, others are incremented

A ``partition_max_bytes`` of 0 only acknowledges.
"""

from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    record_batches,
    string,
    struct,
    uuid,
)
from odradek.protocol.types import RecordData, Uuid


class ShareFetchRequest(Message, key=78, versions="0", flexible="0+", unstable="0"):
    class Topic(Struct):
        class Partition(Struct):
            class AcknowledgementBatch(Struct):
                first_offset: int = int64()
                last_offset: int = int64()
                acknowledge_types: list[int] = array(int8)

            partition_index: int = int32()
            partition_max_bytes: int = int32()
            acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)

        topic_id: Uuid = uuid()
        partitions: list[Partition] = array(Partition)

    class ForgottenTopic(Struct):
        topic_id: Uuid = uuid()
        partitions: list[int] = array(int32)

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    topics: list[Topic] = array(Topic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic)


class ShareFetchResponse(Message, key=78, versions="0", flexible="0+"):
    class Topic(Struct):
        class Partition(Struct):
            class LeaderIdAndEpoch(Struct):
                leader_id: int = int32()
                leader_epoch: int = int32()

            class AcquiredBatch(Struct):
                first_offset: int = int64()
                last_offset: int = int64()
                delivery_count: int = int16()

            partition_index: int = int32()
            error_code: int = int16()
            error_message: str | None = string(nullable="0+", default=None)
            acknowledge_error_code: int = int16()
            acknowledge_error_message: str | None = string(nullable="0+", default=None)
            current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)
            records: RecordData | None = record_batches(nullable="0+")
            acquired_records: list[AcquiredBatch] = array(AcquiredBatch)

        topic_id: Uuid = uuid()
        partitions: list[Partition] = array(Partition)

    class NodeEndpoint(Struct):
        node_id: int = int32()
        host: str = string()
        port: int = int32()
        rack: str | None = string(nullable="0+", default=None)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[Topic] = array(Topic)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
