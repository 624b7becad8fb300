"""Produce (key 0): append record batches."""

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
