"""LeaderAndIsr (key 4): the controller tells a broker which partitions it leads and follows.

    v1  marks new replicas; may return KAFKA_STORAGE_ERROR (KIP-112)
    v2  partitions grouped by topic; the broker's epoch is checked (KIP-380)
    v3  replicas being added and removed (KIP-455)
    v4  first flexible version
    v5  topic ids; full and incremental requests; the response has topic ids (KIP-516)
    v6  the leader recovery state, after an unclean election (KIP-704)
    v7  the sender may be a KRaft controller (KIP-866)

``leader``: -1 none, -2 the topic is being deleted.  ``partition_epoch`` is the version of the
partition's znode.  ``type``: 0 unknown, 1 incremental, 2 full: the broker has no replica of
partitions that are missing.  ``leader_recovery_state``: 0 recovered, 1 recovering.
"""

from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)
from odradek.protocol.types import ZERO_UUID, Uuid


class LeaderAndIsrPartitionState(Struct):
    topic_name: str = string("0-1", default="", ignorable=True)
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    partition_epoch: int = int32()
    replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32, "3+", default=[], ignorable=True)
    removing_replicas: list[int] = array(int32, "3+", default=[], ignorable=True)
    is_new: bool = boolean("1+", default=False, ignorable=True)
    leader_recovery_state: int = int8("6+", default=0)


class LeaderAndIsrRequest(Message, key=4, versions="0-7", flexible="4+"):
    class TopicState(Struct):
        topic_name: str = string("2+")
        topic_id: Uuid = uuid("5+", default=ZERO_UUID, ignorable=True)
        partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "2+")

    class LiveLeader(Struct):
        broker_id: int = int32()
        host_name: str = string()
        port: int = int32()

    controller_id: int = int32()
    is_kraft_controller: bool = boolean("7+", default=False)
    controller_epoch: int = int32()
    broker_epoch: int = int64("2+", default=-1, ignorable=True)
    type: int = int8("5+", default=0)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(
        LeaderAndIsrPartitionState, "0-1", default=[]
    )
    topic_states: list[TopicState] = array(TopicState, "2+", default=[])
    live_leaders: list[LiveLeader] = array(LiveLeader)


class LeaderAndIsrPartitionError(Struct):
    topic_name: str = string("0-4", default="", ignorable=True)
    partition_index: int = int32()
    error_code: int = int16()


class LeaderAndIsrResponse(Message, key=4, versions="0-7", flexible="4+"):
    class Topic(Struct):
        topic_id: Uuid = uuid("5+")
        partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "5+")

    error_code: int = int16()
    partition_errors: list[LeaderAndIsrPartitionError] = array(
        LeaderAndIsrPartitionError, "0-4", default=[]
    )
    topics: list[Topic] = array(Topic, "5+", default=[])
