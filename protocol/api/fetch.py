"""Fetch (key 1): consumers and followers read record batches.

    v1   the response has a throttle time
    v2   records may be of magic 1 (KIP-32)
    v3   a limit on the whole response, filled in the order of the request (KIP-74)
    v4   isolation level, aborted transactions; records may be of magic 2 (KIP-98)
    v5   log start offsets in the request and the response (KIP-107)
    v6   may return KAFKA_STORAGE_ERROR (KIP-112)
    v7   fetch sessions: only changed partitions are sent (KIP-227)
    v8   the response is sent before throttling (KIP-219)
    v9   the client's leader epoch is checked (KIP-320)
    v10  records may be compressed with zstd (KIP-110)
    v11  the consumer's rack, and the preferred read replica (KIP-392)
    v12  first flexible version; truncation by diverging epochs, the current leader (KIP-595),
         snapshots (KIP-630)
    v13  topic ids instead of names (KIP-516)
    v14  may return OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405)
    v15  the follower's broker epoch (KIP-903)
    v16  endpoints of the current leaders (KIP-951)
    v17  the follower's log directory (KIP-853)
    v18  the high watermark that the follower knows (KIP-1166)

Records are whole batches as stored in the log, except the last one, which may be truncated.
Batches are down-converted if the version does not allow their magic.

    replica id       a broker, -1 a consumer, -2 a debugging consumer
    isolation level  0 uncommitted, 1 committed: up to the last stable offset
    session epoch    0 opens a session, -1 closes it or uses none, others are incremented
"""

from odradek.protocol.schema import (
    DEFAULTS,
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
from odradek.protocol.types import ZERO_UUID, RecordData, Uuid


class FetchRequest(Message, key=1, versions="0-18", flexible="12+"):
    class ReplicaState(Struct):
        replica_id: int = int32("15+", default=-1)
        replica_epoch: int = int64("15+", default=-1)

    class Topic(Struct):
        class Partition(Struct):
            partition: int = int32()
            current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
            fetch_offset: int = int64()
            last_fetched_epoch: int = int32("12+", default=-1)
            log_start_offset: int = int64("5+", default=-1, ignorable=True)
            partition_max_bytes: int = int32()
            replica_directory_id: Uuid = uuid("17+", tag=0, default=ZERO_UUID, ignorable=True)
            high_watermark: int = int64("18+", tag=1, default=0x7FFFFFFFFFFFFFFF, ignorable=True)

        topic: str = string("0-12", default="", ignorable=True)
        topic_id: Uuid = uuid("13+", default=ZERO_UUID, ignorable=True)
        partitions: list[Partition] = array(Partition)

    class ForgottenTopic(Struct):
        topic: str = string("7-12", default="", ignorable=True)
        topic_id: Uuid = uuid("13+", default=ZERO_UUID, ignorable=True)
        partitions: list[int] = array(int32, "7+")

    cluster_id: str | None = string("12+", nullable="12+", tag=0, default=None, ignorable=True)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState = struct(ReplicaState, "15+", tag=1, default=DEFAULTS)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32("3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = int8("4+", default=0, ignorable=True)
    session_id: int = int32("7+", default=0, ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    topics: list[Topic] = array(Topic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+", default=[])
    rack_id: str = string("11+", default="", ignorable=True)


class FetchResponse(Message, key=1, versions="0-18", flexible="12+"):
    class Topic(Struct):
        class Partition(Struct):
            class EpochEndOffset(Struct):
                epoch: int = int32("12+", default=-1)
                end_offset: int = int64("12+", default=-1)

            class LeaderIdAndEpoch(Struct):
                leader_id: int = int32("12+", default=-1)
                leader_epoch: int = int32("12+", default=-1)

            class SnapshotId(Struct):
                end_offset: int = int64(default=-1)
                epoch: int = int32(default=-1)

            class AbortedTransaction(Struct):
                producer_id: int = int64("4+")
                first_offset: int = int64("4+")

            partition_index: int = int32()
            error_code: int = int16()
            high_watermark: int = int64()
            last_stable_offset: int = int64("4+", default=-1, ignorable=True)
            log_start_offset: int = int64("5+", default=-1, ignorable=True)
            diverging_epoch: EpochEndOffset = struct(EpochEndOffset, "12+", tag=0, default=DEFAULTS)
            current_leader: LeaderIdAndEpoch = struct(
                LeaderIdAndEpoch, "12+", tag=1, default=DEFAULTS
            )
            snapshot_id: SnapshotId = struct(SnapshotId, "12+", tag=2, default=DEFAULTS)
            aborted_transactions: list[AbortedTransaction] | None = array(
                AbortedTransaction, "4+", nullable="4+", default=[], ignorable=True
            )
            preferred_read_replica: int = int32("11+", default=-1)
            records: RecordData | None = record_batches(nullable="0+")

        topic: str = string("0-12", default="", ignorable=True)
        topic_id: Uuid = uuid("13+", default=ZERO_UUID, ignorable=True)
        partitions: list[Partition] = array(Partition)

    class NodeEndpoint(Struct):
        node_id: int = int32("16+")
        host: str = string("16+")
        port: int = int32("16+")
        rack: str | None = string("16+", nullable="16+", default=None)

    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16("7+", default=0, ignorable=True)
    session_id: int = int32("7+", default=0)
    responses: list[Topic] = array(Topic)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0, default=[])
