"""Produce (key 0): append record batches to partitions.

    v1   the response has a throttle time
    v2   the log append time; records may be of magic 1 (KIP-32)
    v3   transactions; exactly one batch of magic 2 per partition (KIP-98)
    v4   may return KAFKA_STORAGE_ERROR (KIP-112)
    v5   the response has the log start offset
    v6   the response is sent before throttling (KIP-219)
    v7   records may be compressed with zstd (KIP-110)
    v8   the invalid records and their error messages (KIP-467)
    v9   first flexible version
    v10  the current leader, if it is another broker (KIP-951)
    v11  may return TRANSACTION_ABORTABLE (KIP-890)
    v12  adds its partitions to the transaction implicitly (KIP-890)
    v13  topic ids instead of names (KIP-516)

``acks``: 0 no response is sent, 1 the leader has the records, -1 all in-sync replicas have
them.  ``log_append_time_ms`` is -1 if the records keep the producer's timestamps.
"""

from odradek.protocol.schema import (
    DEFAULTS,
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    record_batches,
    string,
    struct,
    uuid,
)
from odradek.protocol.types import ZERO_UUID, RecordData, Uuid


class ProduceRequest(Message, key=0, versions="0-13", flexible="9+"):
    class Topic(Struct):
        class Partition(Struct):
            index: int = int32()
            records: RecordData | None = record_batches(nullable="0+")

        name: str = string("0-12", default="", ignorable=True)
        topic_id: Uuid = uuid("13+", default=ZERO_UUID, ignorable=True)
        partition_data: list[Partition] = array(Partition)

    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[Topic] = array(Topic)


class ProduceResponse(Message, key=0, versions="0-13", flexible="9+"):
    class Topic(Struct):
        class Partition(Struct):
            class RecordError(Struct):
                batch_index: int = int32("8+")
                batch_index_error_message: str | None = string("8+", nullable="8+", default=None)

            class LeaderIdAndEpoch(Struct):
                leader_id: int = int32("10+", default=-1)
                leader_epoch: int = int32("10+", default=-1)

            index: int = int32()
            error_code: int = int16()
            base_offset: int = int64()
            log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
            log_start_offset: int = int64("5+", default=-1, ignorable=True)
            record_errors: list[RecordError] = array(RecordError, "8+", default=[], ignorable=True)
            error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
            current_leader: LeaderIdAndEpoch = struct(
                LeaderIdAndEpoch, "10+", tag=0, default=DEFAULTS
            )

        name: str = string("0-12", default="", ignorable=True)
        topic_id: Uuid = uuid("13+", default=ZERO_UUID, ignorable=True)
        partition_responses: list[Partition] = array(Partition)

    class NodeEndpoint(Struct):
        node_id: int = int32("10+")
        host: str = string("10+")
        port: int = int32("10+")
        rack: str | None = string("10+", nullable="10+", default=None)

    responses: list[Topic] = array(Topic)
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0, default=[])
